"""Play one session: ask for its next step, make the call, record what happened."""

from __future__ import annotations

from typing import Any

from loadtest.chat import PARENT_HEADER, SESSION_HEADER
from loadtest.load_run import LoadRun
from loadtest.prompts import Prompt
from loadtest.quantiles import nearest_rank
from loadtest.records import Record
from loadtest.sse import Reply
from loadtest.traffic import Step


class Conversation:
    """Play one session against one region over one kept-alive connection."""

    def __init__(self, run: LoadRun, number: int | None = None) -> None:
        if number is None:
            number = run.next_session_number()
        run.recorder.sessions_started += 1
        regions = list(run.settings.targets)
        self._run = run
        self._region = regions[number % len(regions)]  # regions take turns
        self._steps = run.traffic.session(number)
        self._connection = run.chat.connect(self._region)

    def next_step(self) -> Step | None:
        """Give the next call, None when the session is over or would pass the context."""
        step = next(self._steps, None)
        if step is not None and self._fits(step):
            return step
        self._run.recorder.sessions_finished += 1
        self.close()
        return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def call(self, step: Step, *, due_s: float | None = None) -> Record:
        """Make one call, write its record, and return it."""
        run = self._run
        prompt = run.prompt(step.messages)
        headers = {SESSION_HEADER: step.session}
        if step.parent is not None:
            headers[PARENT_HEADER] = step.parent
        body = run.chat.body(step.messages, step.output_tokens)
        attainable = run.oracle.send(self._region, prompt)
        run.recorder.calls_started += 1
        start_s, stage = run.recorder.now_s(), run.recorder.stage
        reply = run.chat.fetch(self._connection, body, headers)
        usage = reply.usage or {}
        cached = _count((usage.get("prompt_tokens_details") or {}).get("cached_tokens"))
        gap_p50_ms, gap_max_ms = _gaps(reply)
        chosen = reply.prefill_worker or reply.worker
        record = Record(
            region=self._region,
            session=step.session,
            turn=step.turn,
            kind=step.kind,
            sent_s=round(start_s, 6),
            due_s=None if due_s is None else round(due_s, 6),
            prompt_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
            cached_tokens=cached,
            attainable_tokens=self._explained(attainable.region, cached, prompt),
            attainable_global_tokens=attainable.everywhere,
            selected_tokens=None if chosen is None else attainable.selected(chosen),
            best_tokens=None if chosen is None else attainable.best,
            predicted_prompt_tokens=prompt.token_count,
            ttft_s=None if reply.first_s is None else round(reply.first_s - reply.sent_s, 6),
            e2e_s=round(reply.ended_s - reply.sent_s, 6),
            chunks=reply.chunks,
            gap_p50_ms=gap_p50_ms,
            gap_max_ms=gap_max_ms,
            worker=reply.worker,
            status=reply.status,
            error=reply.error,
            error_detail=reply.error_detail,
            prefill_worker=reply.prefill_worker,
            parent=step.parent,
            stage=stage,
        )
        if reply.error is None:
            run.oracle.complete(self._region, prompt, chosen)
        run.recorder.add(record, reply.gaps_s)
        for listener in run.listeners:
            listener(record, reply.received_bytes)
        return record

    def _explained(self, attainable: int, cached: int | None, prompt: Prompt) -> int:
        """Count what came from a request that was still in flight as attainable, as it was had."""
        if cached is None or cached <= attainable:
            return attainable
        return max(attainable, min(cached, self._run.oracle.in_flight(self._region, prompt)))

    def _fits(self, step: Step) -> bool:
        words = sum(len(message.content) + len(message.reasoning) for message in step.messages)
        return words + step.output_tokens <= self._run.settings.max_context


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _gaps(reply: Reply) -> tuple[float | None, float | None]:
    """Give the median and the longest gap in milliseconds."""
    gaps_ms = [gap_s * 1000 for gap_s in reply.gaps_s]
    median = nearest_rank(gaps_ms, 0.5)
    if median is None:
        return None, None
    return round(median, 3), round(max(gaps_ms), 3)
