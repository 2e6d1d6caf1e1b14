"""Read the inputs.json that each AIPerf run writes: every request that it sent, by session.

Source: docs.nvidia.com/aiperf, inputs JSON replay: `{"data": [{"session_id", "payloads": [{
"messages", "max_tokens"}]}]}`. Each payload is a whole prompt; when it was sent is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import AliasChoices, Field

from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_TOKENS, Call, Part, Trace, kept
from loadtest.replay.transcript import OUTPUT_TOKENS, Transcript, check_length, sendable


class _Payload(Recorded):
    messages: list[Any] = Field(min_length=1)
    tools: list[Any] | None = None
    output_tokens: int | None = Field(
        None,
        ge=0,
        le=MAX_TOKENS,
        validation_alias=AliasChoices("max_completion_tokens", "max_tokens"),
    )


class _Session(Recorded):
    session_id: str = Field(min_length=1, max_length=200)
    payloads: list[_Payload] = Field(min_length=1)


class _Inputs(Recorded):
    data: list[_Session]


class AIPerfInputsReader:
    """Read one document with all sessions."""

    name: ClassVar[str] = "aiperf-inputs"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by the list of sessions."""
        data = document.get("data")
        return isinstance(data, list) and all(
            isinstance(item, dict) and "payloads" in item for item in data
        )

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read the sessions one by one."""
        transcript = Transcript(rules.count)
        seen: set[str] = set()
        for entry in entries:
            for index, session in enumerate(entry.read(_Inputs, entry.data).data):
                if session.session_id in seen:
                    what = f"{session.session_id} was read before"
                    entry.refuse(f"data[{index}].session_id", what, "Give each its own")
                seen.add(session.session_id)
                calls = _calls(entry, session, f"data[{index}]", transcript)
                yield Trace(name=session.session_id, calls=tuple(calls))


def _calls(entry: Entry, session: _Session, place: str, transcript: Transcript) -> Iterator[Call]:
    before: list[Part] = []
    for index, payload in enumerate(session.payloads):
        spot = f"{place}.payloads[{index}]"
        tools = transcript.tools(entry, f"{spot}.tools", payload.tools)
        said = transcript.parts(entry, f"{spot}.messages", payload.messages)
        history = sendable([], [*tools, *said])
        keep = kept(before, history)
        before = history
        last = payload.messages[-1]
        yield Call(
            agent="",
            at_s=0.0,
            gap_s=0.0,
            input_tokens=check_length(entry, spot, history),
            output_tokens=OUTPUT_TOKENS if payload.output_tokens is None else payload.output_tokens,
            after_tool=isinstance(last, dict) and last.get("role") == "tool",
            keep=keep,
            parts=tuple(history[keep:]),
        )
