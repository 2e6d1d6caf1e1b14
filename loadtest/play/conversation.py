"""Play one session: ask for its next step, make the call, record what happened."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass

from fleet.errors import LoadError
from loadtest.cache.oracle import Attainable
from loadtest.client.sse import Expected, Reply
from loadtest.client.usage import usage_fault
from loadtest.play.load_run import LoadRun
from loadtest.prompt.api import Wish
from loadtest.prompt.ledger import Ledger
from loadtest.prompt.live_history import LiveHistory
from loadtest.prompt.prompts import Prompt, ToolSet
from loadtest.results.quantiles import nearest_rank
from loadtest.results.records import Record
from loadtest.traffic.sessions import Step

logger = logging.getLogger(__name__)

_MOST_STRANDS = 8
"""Sessions held of one conversation: its own and those of sub-agents at work. A lost one is counted
anew from its next prompt."""


@dataclass(frozen=True, slots=True)
class _Strand:
    """Hold what one session, the agent's or a sub-agent's, has said so far."""

    tools: ToolSet | None
    ledger: Ledger
    live: LiveHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """Hold what was known when a call left."""

    step: Step
    due_s: float | None
    prompt: Prompt
    attainable: Attainable
    start_s: float
    stage: str


class Conversation:
    """Play one session against one region over one kept-alive connection."""

    def __init__(self, run: LoadRun, number: int) -> None:
        run.recorder.sessions_started += 1
        regions = list(run.settings.targets)
        self._run = run
        self._region = regions[number % len(regions)]  # regions take turns
        self._steps = run.traffic.session(number)
        self._connection = run.chat.connect(self._region)
        self._strands: OrderedDict[str, _Strand] = OrderedDict()

    def next_step(self) -> Step | None:
        """Give the next call, None when the session is over or would pass the context."""
        step = next(self._steps, None)
        if step is not None and self._fits(step):
            return step
        self._run.recorder.sessions_finished += 1
        self.close()
        return None

    def close(self) -> None:
        """Close the connection, and forget the history."""
        self._connection.close()
        self._strands.clear()

    def attempt(self, step: Step, *, due_s: float | None = None) -> Record | None:
        """Make a call; None when it could not be made at all, which ends the session.

        So it is when a frame has to be learned while no server answers.
        """
        try:
            return self.call(step, due_s=due_s)
        except LoadError as error:
            self._run.recorder.calls_started += 1  # never ended: it is among the unfinished
            logger.warning("%s: turn %d was not sent: %s", step.session, step.turn, error)
            self.close()
            return None

    def call(self, step: Step, *, due_s: float | None = None) -> Record:
        """Make one call, write its record, and return it."""
        run = self._run
        strand = self._strand(step)
        messages = strand.live.messages(step.messages)
        prompt = strand.ledger.advance(messages)
        wish = Wish(max_tokens=step.output_tokens, tools=step.tools)
        body = run.chat.api.body(messages, strand.ledger.fragments, wish)
        headers = run.settings.session.headers(step.session, step.parent)
        sent = _Sent(
            step=step,
            due_s=due_s,
            prompt=prompt,
            attainable=run.oracle.send(self._region, prompt),
            start_s=run.recorder.now_s(),
            stage=run.recorder.stage,
        )
        run.recorder.calls_started += 1
        reply = run.chat.fetch(self._connection, body, headers, _expected(step))
        if run.settings.session.history == "live":
            strand.live.took(step.messages, reply)
        record = self._record(sent, reply)
        if reply.error is None:  # also when we hung up: a token came, so the prompt was computed
            run.oracle.complete(self._region, prompt, _chosen(reply))
        run.recorder.add(record, reply.gaps_s)
        for listener in run.listeners:
            listener(record, reply.received_bytes)
        return record

    def _record(self, sent: _Sent, reply: Reply) -> Record:
        step, attainable, chosen = sent.step, sent.attainable, _chosen(reply)
        usage = reply.usage or {}
        if usage_fault(
            usage, step.output_tokens
        ):  # of a failed call; what is saved has to be numbers of tokens
            usage = {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        gap_p50_ms, gap_max_ms = _gaps(reply)
        return Record(
            region=self._region,
            session=step.session,
            turn=step.turn,
            kind=step.kind,
            sent_s=round(sent.start_s, 6),
            due_s=None if sent.due_s is None else round(sent.due_s, 6),
            prompt_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            cached_tokens=cached,
            attainable_tokens=self._explained(attainable.region, cached, sent.prompt),
            attainable_global_tokens=attainable.everywhere,
            selected_tokens=None if chosen is None else attainable.selected(chosen),
            best_tokens=None if chosen is None else attainable.best,
            predicted_prompt_tokens=sent.prompt.token_count,
            predicted_exactly=sent.prompt.exact,
            ttft_s=_since(reply.sent_s, reply.first_s),
            ttfo_s=_since(reply.sent_s, reply.first_output_s),
            e2e_s=round(reply.ended_s - reply.sent_s, 6),
            chunks=reply.chunks,
            gap_p50_ms=gap_p50_ms,
            gap_max_ms=gap_max_ms,
            worker=reply.worker,
            status=reply.status,
            error=reply.error,
            error_detail=reply.error_detail,
            prefill_worker=reply.prefill_worker,
            finish=reply.finish_reason,
            cancelled=reply.cancelled,
            retries=reply.retries,
            parent=step.parent,
            stage=sent.stage,
        )

    def _strand(self, step: Step) -> _Strand:
        """Find what is held of the step's session; a sub-agent starts as a copy of its parent."""
        strand = self._strands.pop(step.session, None)
        if strand is None or strand.tools is not step.tools:
            parent = self._strands.get(step.parent or "")
            if (
                parent is not None
                and parent.tools is step.tools
                and parent.ledger.starts_like(step.messages)
            ):
                strand = _Strand(step.tools, parent.ledger.fork(), parent.live.fork())
            else:
                ledger = self._run.ledgers.open(step.tools, step.messages)
                strand = _Strand(step.tools, ledger, LiveHistory())
        self._strands[step.session] = strand
        while len(self._strands) > _MOST_STRANDS:
            self._strands.popitem(last=False)
        return strand

    def _explained(self, attainable: int, cached: int | None, prompt: Prompt) -> int:
        """Count what came from a request that was still in flight as attainable, as it was had."""
        if cached is None or cached <= attainable:
            return attainable
        return max(attainable, min(cached, self._run.oracle.in_flight(self._region, prompt)))

    def _fits(self, step: Step) -> bool:
        words = sum(message.length for message in step.messages)
        return words + step.output_tokens <= self._run.settings.max_context


def _chosen(reply: Reply) -> str | None:
    """Name the worker that the router chose for the prompt."""
    return reply.prefill_worker or reply.worker


def _expected(step: Step) -> Expected:
    """Say what the step asked for: its limit, its tools, and when the user has seen enough."""
    asked = step.cancel_after
    return Expected(
        tools=frozenset(step.tools.names if step.tools else ()),
        max_tokens=step.output_tokens,
        cancel_after_chunks=None if asked is None else max(1, round(asked * step.output_tokens)),
    )


def _since(sent_s: float, moment_s: float | None) -> float | None:
    return None if moment_s is None else round(moment_s - sent_s, 6)


def _gaps(reply: Reply) -> tuple[float | None, float | None]:
    """Give the median and the longest gap in milliseconds."""
    gaps_ms = [gap_s * 1000 for gap_s in reply.gaps_s]
    median = nearest_rank(gaps_ms, 0.5)
    if median is None:
        return None, None
    return round(median, 3), round(max(gaps_ms), 3)
