"""Read Dynamo's agentic Mooncake rows: requests that wait for one another.

Source: github.com/ai-dynamo/dynamo, `lib/data-gen` (`AgenticMooncakeRow`) and its guide to agent
simulation. Version 2 starts with a header (`schema` "dynamo.agentic_mooncake", `block_size`,
`hash_id_scope`) and its rows have `play_id`, `session_id`, `not_before_ms` and `dependencies`
(`request_id`, `delay_ms`); rows before it have `wait_for`, `delay`, `tool_wait_ms` and, when they
wait for nothing, `timestamp`. Times are in ms; the last id of a prompt is that of a block that is
not full. How long a request took is not recorded: a row is due its delay after those it waits for.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, Field

from loadtest.replay.blocks import BlockCall, BlockHistory, IdBudget
from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.mooncake import BLOCK_SIZE
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_CALLS, MAX_SECONDS, MAX_TOKENS, Trace

SCHEMA = "dynamo.agentic_mooncake"

_Ms = Annotated[float, Field(ge=0, le=MAX_SECONDS * 1000, allow_inf_nan=False)]
_TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class _Header(Recorded):
    version: Literal[1, 2]
    block_size: int = Field(ge=1, le=65_536)


class _Dependency(Recorded):
    request_id: str
    delay_ms: _Ms = 0.0


class _Row(Recorded):
    request_id: str = Field(min_length=1, max_length=200)
    play_id: str | None = None
    session_id: str | None = None
    input_length: _TokenCount = Field(validation_alias=AliasChoices("input_length", "input_tokens"))
    output_length: _TokenCount = Field(
        validation_alias=AliasChoices("output_length", "output_tokens")
    )
    hash_ids: list[int] = Field(default_factory=list)
    timestamp: _Ms | None = Field(
        None, validation_alias=AliasChoices("timestamp", "created_time", "not_before_ms")
    )
    delay: _Ms = Field(0.0, validation_alias=AliasChoices("delay", "delay_ms"))
    tool_wait_ms: _Ms = 0.0
    wait_for: list[str] = Field(default_factory=list)
    dependencies: list[_Dependency] = Field(default_factory=list)

    @property
    def waits(self) -> dict[str, float]:
        """Give what it waits for, and how many ms after that it is due."""
        old = dict.fromkeys(self.wait_for, self.delay + self.tool_wait_ms)
        return old | {item.request_id: item.delay_ms for item in self.dependencies}


@dataclass(slots=True)
class _Graph:
    """Hold all rows by their id, in the order of the file."""

    block_size: int
    scope: Literal["session", "set"] = "set"
    rows: dict[str, tuple[Entry, _Row]] = field(default_factory=dict)
    ids: dict[str, tuple[array[int], int | None]] = field(default_factory=dict)
    budget: IdBudget = field(default_factory=IdBudget)

    def add(self, entry: Entry) -> None:
        row = entry.read(_Row, entry.data)
        if row.request_id in self.rows:
            entry.refuse("request_id", f"{row.request_id} was read before", "Give each row its id")
        if len(self.rows) >= MAX_CALLS:
            entry.refuse("", f"more than {MAX_CALLS} requests", "Give a part of the file")
        self.ids[row.request_id] = self.budget.cut(
            entry, "hash_ids", row.hash_ids, row.input_length, self.block_size
        )
        row.hash_ids.clear()  # they are packed now
        self.rows[row.request_id] = (entry.place(), row)


class AgenticMooncakeReader:
    """Read one request per line, after a header in newer files."""

    name: ClassVar[str] = "agentic-mooncake"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by the header, or by a row's id beside a length."""
        lengths = {"input_length", "input_tokens"} & document.keys()
        return document.get("schema") == SCHEMA or ("request_id" in document and bool(lengths))

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read all rows, then sort them into plays: what waits for one another, or is named so."""
        graph = _Graph(rules.options.block_size or BLOCK_SIZE)
        for entry in entries:
            if entry.data.get("schema") == SCHEMA:
                header = entry.read(_Header, entry.data)
                graph.block_size, graph.scope = header.block_size, "session"
            else:
                graph.add(entry)
        due_ms = _due(graph)
        plays: dict[str, list[str]] = {}
        for name, play in _plays(graph).items():
            plays.setdefault(play, []).append(name)
        first_ms = min(due_ms.values(), default=0.0)
        for play, names in plays.items():
            names.sort(key=due_ms.__getitem__)
            yield _trace(play, names, graph, due_ms, first_ms)


def _due(graph: _Graph) -> dict[str, float]:
    """Tell when each row is due, rows that wait for nothing at their time; refuses circles."""
    followers: dict[str, list[str]] = {}
    open_waits: dict[str, int] = {}
    for name, (entry, row) in graph.rows.items():
        for other in row.waits:
            if other not in graph.rows:
                what = f"waits for {other:.200}, which is not in the file"
                entry.refuse("wait_for", what, "Leave it out, or add that request")
            followers.setdefault(other, []).append(name)
        open_waits[name] = len(row.waits)
    due_ms = {name: row.timestamp or 0.0 for name, (_, row) in graph.rows.items()}
    ready = [(due_ms[name], name) for name, count in open_waits.items() if not count]
    heapq.heapify(ready)
    done = 0
    while ready:
        at_ms, name = heapq.heappop(ready)
        done += 1
        for follower in followers.get(name, ()):
            delay_ms = graph.rows[follower][1].waits[name]
            due_ms[follower] = max(due_ms[follower], at_ms + delay_ms)
            open_waits[follower] -= 1
            if not open_waits[follower]:
                heapq.heappush(ready, (due_ms[follower], follower))
    if done < len(graph.rows):
        stuck = next(name for name, count in open_waits.items() if count)
        entry, row = graph.rows[stuck]
        what = f"{stuck} waits in a circle for {', '.join(row.waits):.200}"
        entry.refuse("wait_for", what, "Correct the dependencies")
    return due_ms


def _plays(graph: _Graph) -> dict[str, str]:
    """Name the play of each row: its own name for it, or all that hangs together."""
    play: dict[str, str] = {}

    def find(name: str) -> str:
        while play.setdefault(name, name) != name:
            play[name] = play[play[name]]
            name = play[name]
        return name

    for name, (_, row) in graph.rows.items():
        session = f"session {row.session_id}" if row.session_id else None
        links = [f"play {row.play_id}"] if row.play_id else [*row.waits, session]
        for link in links:
            if link is not None:
                play[find(name)] = find(link)
    return {name: find(name) for name in graph.rows}


def _trace(
    play: str, names: list[str], graph: _Graph, due_ms: dict[str, float], first_ms: float
) -> Trace:
    history = BlockHistory()
    agents: dict[str, str] = {}
    parents: dict[str, str] = {}
    calls = []
    start_ms = due_ms[names[0]]
    for name in names:
        _, row = graph.rows[name]
        session = row.session_id or ""
        if session not in agents:
            agents[session] = str(len(agents)) if agents else ""
            starter = next((graph.rows[other][1].session_id or "" for other in row.waits), None)
            if agents[session]:
                parents[agents[session]] = agents.get(starter or "", "")
        ids, tail_id = graph.ids[name]
        made = BlockCall(
            agent=agents[session],
            at_s=(due_ms[name] - start_ms) / 1000,
            gap_s=max(row.waits.values(), default=0.0) / 1000,
            input_tokens=row.input_length,
            output_tokens=row.output_length,
            after_tool=row.tool_wait_ms > 0,
            ids=ids,
            tail_id=tail_id,
        )
        calls.append(history.call(made))
    return Trace(
        name=play[:200],
        calls=tuple(calls),
        block_size=graph.block_size,
        scope=graph.scope,
        parents=parents,
        start_s=(start_ms - first_ms) / 1000,
    )
