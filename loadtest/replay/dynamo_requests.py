"""Read Dynamo's request traces: `dynamo.request.trace.v1`, and `dynamo.agent.trace.v1` before it.

Source: docs.nvidia.com/dynamo (user guides, agent tracing) and AIPerf's reader of the same: one
record per line, bare or as `{"timestamp": …, "event": record}`; of `request_end` records
`agent_context` says who called (`session_id` and `parent_session_id`, `trajectory_id` and
`parent_trajectory_id`, or `program_id` and `parent_program_id`), `request` how long it was, and
`request.replay` names its blocks, each id standing for the block and all before it, the last one
not full. Without `replay`, prompts are taken to grow by their lengths (see `growth`).
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from loadtest.replay.blocks import BlockCall, BlockHistory, IdBudget
from loadtest.replay.families import roots
from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.growth import CountedCall, Growth
from loadtest.replay.mooncake import Request, by_session
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_CALLS, MAX_TOKENS, NO_BLOCKS, Call, Trace, paced

SCHEMAS = ("dynamo.request.trace.v1", "dynamo.agent.trace.v1")

_EpochMs = Annotated[int, Field(ge=0, le=10**13)]
_Ms = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class _Context(Recorded):
    session_id: str | None = None
    parent_session_id: str | None = None
    trajectory_id: str | None = None
    parent_trajectory_id: str | None = None
    program_id: str | None = None
    parent_program_id: str | None = None

    @property
    def own(self) -> str | None:
        return self.trajectory_id or self.program_id or self.session_id

    @property
    def parent(self) -> str | None:
        return self.parent_trajectory_id or self.parent_program_id or self.parent_session_id


class _Replay(Recorded):
    trace_block_size: int = Field(ge=1, le=65_536)
    input_length: _TokenCount
    input_sequence_hashes: list[int]


class _Finish(Recorded):
    finish_reason: str | None = None


class _Measured(Recorded):
    request_id: str
    input_tokens: _TokenCount | None = None
    output_tokens: _TokenCount | None = None
    request_received_ms: _EpochMs | None = None
    total_time_ms: _Ms | None = None
    replay: _Replay | None = None
    finish_reason_metadata: _Finish | None = None


class _Record(Recorded):
    event_type: str
    event_time_unix_ms: _EpochMs
    agent_context: _Context | None = None
    request: _Measured | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """Hold one request, its place kept for messages."""

    entry: Entry
    at_s: float
    busy_s: float
    input_tokens: int
    output_tokens: int
    tools_follow: bool
    block_size: int = 0
    """0 = its blocks were not recorded."""
    ids: array[int] = field(default_factory=lambda: NO_BLOCKS)
    tail_id: int | None = None


@dataclass(slots=True)
class _Read:
    calls: dict[str, list[_Call]] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    nameless: list[_Call] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    budget: IdBudget = field(default_factory=IdBudget)

    def add(self, entry: Entry) -> None:
        data = unwrapped(entry.data)
        if data.get("schema") not in SCHEMAS:
            if "schema" not in data:  # uploaders append marks of their own
                return
            entry.refuse("schema", f"is none of {', '.join(SCHEMAS)}", "Record it with Dynamo")
        record = entry.read(_Record, data)
        if record.event_type != "request_end":
            return
        if record.request is None:
            entry.refuse("request", "is missing", "Leave the line out")
        call = _call(entry, record, record.request, self.budget)
        if record.request.request_id in self.ids:
            what = f"{record.request.request_id} was read before"
            entry.refuse("request.request_id", what, "Give each record once")
        if len(self.ids) >= MAX_CALLS:
            entry.refuse("", f"more than {MAX_CALLS} requests", "Give a part of the trace")
        self.ids.add(record.request.request_id)
        context = record.agent_context or _Context()
        if context.own is None:
            self.nameless.append(call)
            return
        self.calls.setdefault(context.own, []).append(call)
        if context.parent != context.own:
            self.parents[context.own] = self.parents.get(context.own) or context.parent


class DynamoRequestsReader:
    """Read one record per line."""

    name: ClassVar[str] = "dynamo"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by the schema that each record names."""
        return unwrapped(document).get("schema") in SCHEMAS

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read all requests, then sort them into sessions and their sub-agents."""
        read = _Read()
        for entry in entries:
            read.add(entry)
        for name in read.calls:
            read.parents.setdefault(name, None)
        found = roots(
            read.parents,
            lambda name, what: read.calls[name][0].entry.refuse(
                "agent_context", f"{what} at {name}", "Correct the parents"
            ),
        )
        families: dict[str, list[str]] = {}
        for name in read.calls:
            families.setdefault(found[name], []).append(name)
        everyone = [*read.nameless, *(call for calls in read.calls.values() for call in calls)]
        first_s = min((call.at_s for call in everyone), default=0.0)
        for root, names in families.items():
            yield _trace(root, names, read, first_s, rules.options.tag_tokens)
        yield from by_session(*_nameless(read.nameless), rules)
        for number, call in enumerate(call for call in read.nameless if not call.block_size):
            yield Trace(
                name=f"request {number}",
                calls=paced(_counted_calls([("", call)], rules.options.tag_tokens)),
                start_s=call.at_s - first_s,
            )


def unwrapped(document: Document) -> dict[str, Any]:
    """Take a record out of the frame that file sinks put around it."""
    event = document.get("event")
    if "schema" not in document and isinstance(event, dict):
        return event
    return document


def _call(entry: Entry, record: _Record, request: _Measured, budget: IdBudget) -> _Call:
    replay, finish = request.replay, request.finish_reason_metadata
    busy_s = (request.total_time_ms or 0.0) / 1000
    at_s = max(0.0, record.event_time_unix_ms / 1000 - busy_s)
    if request.request_received_ms is not None:
        at_s = request.request_received_ms / 1000
    input_tokens = request.input_tokens if replay is None else replay.input_length
    if input_tokens is None:
        entry.refuse("request", "has neither replay nor input_tokens", "Leave the line out")
    call = _Call(
        entry=entry.place(),
        at_s=at_s,
        busy_s=busy_s,
        input_tokens=input_tokens,
        output_tokens=request.output_tokens or 1,
        tools_follow=finish is not None and finish.finish_reason == "tool_calls",
    )
    if replay is None:
        return call
    place, size = "request.replay.input_sequence_hashes", replay.trace_block_size
    ids, tail_id = budget.cut(entry, place, replay.input_sequence_hashes, input_tokens, size)
    return dataclasses.replace(call, block_size=size, ids=ids, tail_id=tail_id)


def _trace(root: str, names: Sequence[str], read: _Read, first_s: float, tag_tokens: int) -> Trace:
    agents = {name: "" if name == root else str(i) for i, name in enumerate(names, start=1)}
    calls = [(agents[name], call) for name in names for call in read.calls[name]]
    calls.sort(key=lambda item: item[1].at_s)
    block_size = _block_size([call for _, call in calls])
    made = _block_calls(calls) if block_size else _counted_calls(calls, tag_tokens)
    parents = {
        agents[name]: agents.get(read.parents[name] or root, "") for name in names if name != root
    }
    return Trace(
        name=root[:200],
        calls=paced(made),
        block_size=block_size,
        scope="set" if block_size else "session",
        parents=parents,
        start_s=calls[0][1].at_s - first_s,
    )


def _block_size(calls: Sequence[_Call]) -> int:
    """Give the block size of a session, 0 when not all its calls name their blocks."""
    sizes = {call.block_size for call in calls}
    known = sizes - {0}
    if len(known) > 1:
        what = f"a session with blocks of {sorted(known)} tokens"
        calls[0].entry.refuse("request.replay", what, "Give the trace of one fleet")
    return known.pop() if known and known == sizes else 0


def _block_calls(calls: Sequence[tuple[str, _Call]]) -> Iterator[tuple[Call, float]]:
    history = BlockHistory()
    tools_follow: dict[str, bool] = {}
    for agent, call in calls:
        made = BlockCall(
            agent=agent,
            at_s=call.at_s,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            after_tool=tools_follow.get(agent, False),
            ids=call.ids,
            tail_id=call.tail_id,
        )
        tools_follow[agent] = call.tools_follow
        yield history.call(made), call.busy_s


def _counted_calls(
    calls: Sequence[tuple[str, _Call]], tag_tokens: int
) -> Iterator[tuple[Call, float]]:
    growth = Growth(tag_tokens)
    tools_follow: dict[str, bool] = {}
    for agent, call in calls:
        made = CountedCall(
            agent=agent,
            at_s=call.at_s,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            after_tool=tools_follow.get(agent, False),
        )
        tools_follow[agent] = call.tools_follow
        yield growth.call(made), call.busy_s


def _nameless(calls: list[_Call]) -> tuple[list[Request], int]:
    """Turn requests that name no session into those of a Mooncake trace."""
    with_blocks = [call for call in calls if call.block_size]
    requests = [
        Request(
            at_s=call.at_s,
            delay_s=None,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            ids=call.ids,
            tail_id=call.tail_id,
            session=None,
        )
        for call in with_blocks
    ]
    return requests, _block_size(with_blocks)
