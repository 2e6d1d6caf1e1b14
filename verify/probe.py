"""Ask one worker of a Dynamo frontend questions of known answers, and say what was wrong.

The worker is named by its instance id, so that no other answers in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any, NamedTuple

import httpx2

from fleet.rollout.answers import Asked
from verify.questions import Answer, Expected, Question, is_empty, leaks, questions, wrong

ANSWER_TIMEOUT_S = 60.0
MOST_BYTES = 4 << 20


class Worker(NamedTuple):
    """A worker behind a frontend."""

    url: str
    id: str
    http: httpx2.Client  # one that is let through to it
    scripted: bool = False  # a mocker that says what a script has for each question


class AskedInVainError(Exception):
    """A question got no answer that can be judged."""


def probe(worker: Worker, model: str, nonce: str, expected: Expected) -> Asked:
    """Ask all questions side by side; but one that repeats a prompt comes behind that one."""

    def judged(following: Sequence[Question]) -> list[Asked]:
        return [_judged(question, worker, model, expected) for question in following]

    rows = _rows(questions(nonce))
    with ThreadPoolExecutor(len(rows)) as pool:
        found = [one for row in pool.map(judged, rows) for one in row]
    return reduce(Asked.plus, found, Asked())


def _rows(asked: Iterable[Question]) -> list[list[Question]]:
    """Put each question into a row of its own, and what repeats it behind it."""
    rows: list[list[Question]] = []
    for question in asked:
        if question.repeats:
            rows[-1].append(question)
        else:
            rows.append([question])
    return rows


def _judged(question: Question, worker: Worker, model: str, expected: Expected) -> Asked:
    try:
        answer = _ask(question, worker, model, forced=expected.parsed)
    except AskedInVainError as error:
        return Asked(wrong=(f"{question.name}: {error}",))
    if found := leaks(answer):
        return Asked(answers=1, leaks=(f"{question.name}: {' '.join(dict.fromkeys(found))}",))
    if is_empty(answer):
        return Asked(answers=1, empties=(question.name,))
    faults = tuple(f"{question.name}: {why}" for why in wrong(question, answer, expected))
    return Asked(answers=1, wrong=faults)


def _ask(question: Question, worker: Worker, model: str, *, forced: bool) -> Answer:
    nvext: dict[str, Any] = {
        "backend_instance_id": int(worker.id),
        "extra_fields": ["worker_id"],
    }
    if worker.scripted:
        nvext["annotations"] = [f"output_replay_id:{question.name}"]
    body = {**question.body(model, forced=forced), "nvext": nvext}
    try:
        with worker.http.stream(
            "POST",
            f"{worker.url}/v1/chat/completions",
            json=body,
            timeout=ANSWER_TIMEOUT_S,
        ) as reply:
            text = _text(reply)
    except httpx2.HTTPError as error:
        raise AskedInVainError(f"{type(error).__name__} {error}".strip()) from error
    if reply.status_code != httpx2.codes.OK:
        raise AskedInVainError(f"HTTP {reply.status_code}")
    try:
        pieces = list(_events(text)) if question.stream else [json.loads(text)]
        _require_worker(pieces, worker.id)
        return put_together(pieces)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise AskedInVainError("its reply is none of the chat API") from error


def _text(reply: httpx2.Response) -> str:
    parts, size = [], 0
    for part in reply.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise AskedInVainError(f"answers with more than {MOST_BYTES:,} bytes")
    return b"".join(parts).decode("utf-8", "replace")


def _events(text: str) -> Iterable[dict[str, Any]]:
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            yield json.loads(data)


def _require_worker(pieces: Iterable[Mapping[str, Any]], worker: str) -> None:
    told = [piece["nvext"]["worker_id"] for piece in pieces if piece.get("nvext")]
    if not any(str(one.get("decode_worker_id")) == worker for one in told):
        raise AskedInVainError("another worker answered")


def put_together(pieces: Iterable[Mapping[str, Any]]) -> Answer:
    """Join the pieces of a reply; a whole one is a single piece."""
    content, reasoning, finish = "", "", None
    usage: Mapping[str, Any] = {}
    calls: dict[int, list[str]] = {}
    for piece in pieces:
        usage = piece.get("usage") or usage
        for choice in piece.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            content += delta.get("content") or ""
            reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            finish = choice.get("finish_reason") or finish
            for place, call in enumerate(delta.get("tool_calls") or ()):
                known = calls.setdefault(call.get("index", place), ["", ""])
                function = call.get("function") or {}
                known[0] += function.get("name") or ""
                known[1] += function.get("arguments") or ""
    return Answer(
        content=content,
        reasoning=reasoning,
        calls=tuple((name, arguments) for name, arguments in calls.values()),
        finish=finish,
        usage=usage,
    )
