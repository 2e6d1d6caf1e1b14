"""Read kv-cache-tester's sessions, the source of SemiAnalysis AgentX ("weka" in other tools).

Source: github.com/callanjfox/kv-cache-tester, `traces/` (2026-07). One session per JSON document
or line. Ids of blocks are comparable inside one session only, unless `hash_id_scope` says
"global"; a sub-agent shares those of its parent. Sub-agents may start sub-agents.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from loadtest.replay.blocks import BlockCall, BlockHistory, cut_ids
from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.options import ReplayOptions
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_SECONDS, MAX_TOKENS, Call, Trace, paced

_MAX_DEPTH = 16
"""Of sub-agents inside sub-agents; AIPerf and the published files have one."""

_Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
_TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class _Call(Recorded):
    t: _Seconds
    input_tokens: _TokenCount = Field(alias="in")
    output_tokens: _TokenCount = Field(alias="out")
    hash_ids: list[int]
    api_time: _Seconds | None = None
    input_types: list[str] = Field(default_factory=list)


class _Agent(Recorded):
    tool_tokens: _TokenCount = 0
    system_tokens: _TokenCount = 0


class _Subagent(_Agent):
    t: _Seconds


class _Session(_Agent):
    id: str = Field(min_length=1, max_length=200)
    block_size: int = Field(ge=1, le=65_536)
    hash_id_scope: Literal["local", "global"] = "local"


class AgentXReader:
    """Read one session per document or line."""

    name: ClassVar[str] = "agentx"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by the keys that the format always has."""
        return "requests" in document and "block_size" in document

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read the sessions one by one."""
        seen: set[str] = set()
        for entry in entries:
            session = entry.read(_Session, entry.data)
            if session.id in seen:
                entry.refuse("id", f"{session.id!r} was read before", "Give each session its id")
            seen.add(session.id)
            yield _Play(entry, session, rules.options).trace()


@dataclass(slots=True)
class _Play:
    """Hold one session while it is read."""

    entry: Entry
    session: _Session
    options: ReplayOptions
    calls: list[tuple[BlockCall, float]] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    system_blocks: dict[str, int] = field(default_factory=dict)

    def trace(self) -> Trace:
        self._add(self.entry.data, "", "", 0.0)
        if not any(not call.agent for call, _ in self.calls):
            what = "holds no call of the model"
            self.entry.refuse("requests", what, "Leave the session out")
        self.calls.sort(key=lambda item: item[0].at_s)
        history = BlockHistory()
        made = [(history.call(call), busy_s) for call, busy_s in self.calls]
        is_global = self.session.hash_id_scope == "global"
        return Trace(
            name=self.session.id,
            calls=paced(made),
            block_size=self.session.block_size,
            scope="set" if is_global else "session",
            system=() if is_global else tuple(self._system([call for call, _ in made])),
            parents=self.parents,
        )

    def _add(self, owner: dict[str, Any], agent: str, place: str, start_s: float) -> None:
        requests = self._requests(owner, place)
        shared = self.entry.read(_Agent, owner, place)
        tokens = shared.tool_tokens + shared.system_tokens
        self.system_blocks[agent] = tokens // self.session.block_size
        base_s = 0.0 if self._absolute(requests, start_s, place) else start_s
        for index, request in enumerate(requests):
            spot = f"{place}requests[{index}]"
            if request.get("type") == "subagent":
                inner = f"{agent}.{index}" if agent else f"{index}"
                self.parents[inner] = agent
                self._subagent(request, inner, spot, base_s)
            else:
                self._call(request, agent, spot, base_s)

    def _subagent(self, request: dict[str, Any], agent: str, place: str, base_s: float) -> None:
        if agent.count(".") >= _MAX_DEPTH:
            what = f"sub-agents more than {_MAX_DEPTH} deep"
            self.entry.refuse(place, what, "Leave the inner ones out")
        start_s = base_s + self.entry.read(_Subagent, request, place).t
        self._add(request, agent, f"{place}.", start_s)

    def _call(self, request: dict[str, Any], agent: str, place: str, base_s: float) -> None:
        read = self.entry.read(_Call, request, place)
        ids, tail_id = cut_ids(
            self.entry,
            f"{place}.hash_ids",
            read.hash_ids,
            read.input_tokens,
            self.session.block_size,
        )
        call = BlockCall(
            agent=agent,
            at_s=base_s + read.t,
            input_tokens=read.input_tokens,
            output_tokens=read.output_tokens,
            after_tool="tool_result" in read.input_types,
            ids=ids,
            tail_id=tail_id,
        )
        self.calls.append((call, read.api_time or 0.0))

    def _absolute(self, requests: list[dict[str, Any]], start_s: float, place: str) -> bool:
        """Tell whether a sub-agent's times count from the session's start.

        Its first call is never before its own start then; relative times begin at 0 or a little
        later. A sub-agent that starts with the session is the same either way.
        """
        if not place or self.options.subagent_times == "relative":
            return False
        times = [t for request in requests if isinstance(t := request.get("t"), int | float)]
        if self.options.subagent_times == "auto":
            return bool(times) and min(times) >= start_s > 0
        if times and min(times) < start_s:
            what = f"a call at {min(times)} s is before its sub-agent's start at {start_s} s"
            fix = "Set replay.subagent_times to relative, or auto"
            self.entry.refuse(f"{place}requests", what, fix)
        return True

    def _requests(self, owner: dict[str, Any], place: str) -> list[dict[str, Any]]:
        requests = owner.get("requests")
        if not isinstance(requests, list) or not all(isinstance(item, dict) for item in requests):
            self.entry.refuse(f"{place}requests", "is no list of objects", "Write a list of calls")
        return requests

    def _system(self, calls: list[Call]) -> Iterator[array[int]]:
        """Give the whole blocks of tools and system prompt that each agent's first prompt has."""
        given: set[bytes] = set()
        for agent, count in self.system_blocks.items():
            first = next((call for call in calls if call.agent == agent), None)
            blocks = first.blocks[:count] if first else None
            if blocks and blocks.tobytes() not in given:
                given.add(blocks.tobytes())
                yield blocks
