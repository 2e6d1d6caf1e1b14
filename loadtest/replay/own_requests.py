"""Read the requests.jsonl that a load test of ours wrote, to send the same again.

Sessions keep their order, so session n of the replay is session n of the run. What the first
prompt of a session could find in a cache is its system prompt, shared by all sessions that found
as much. Lengths are as sent: replay them with a token scale of 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from loadtest.replay.families import roots
from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.growth import CountedCall, Growth
from loadtest.replay.reading import Rules
from loadtest.replay.recording import MAX_CALLS, MAX_SECONDS, MAX_TOKENS, Trace, paced

_Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
_TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
_NUMBER = re.compile(r"-(\d{1,12})$")


class _Row(Recorded):
    session: str = Field(min_length=1, max_length=200)
    turn: int = Field(ge=1)
    kind: str
    sent_s: _Seconds
    due_s: _Seconds | None = None
    e2e_s: _Seconds = 0.0
    prompt_tokens: _TokenCount | None = None
    predicted_prompt_tokens: _TokenCount
    output_tokens: _TokenCount | None = None
    attainable_tokens: _TokenCount = 0
    parent: str | None = None

    @property
    def at_s(self) -> float:
        return self.sent_s if self.due_s is None else self.due_s


@dataclass(slots=True)
class _Sessions:
    """Hold the rows of each session, and who started it."""

    rows: dict[str, list[_Row]] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    places: dict[str, Entry] = field(default_factory=dict)
    turns: set[tuple[str, int]] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        row = entry.read(_Row, entry.data)
        if (row.session, row.turn) in self.turns:
            what = f"turn {row.turn} of {row.session} was read before"
            entry.refuse("turn", what, "Give the file of one run")
        if len(self.turns) >= MAX_CALLS:
            entry.refuse("", f"more than {MAX_CALLS} requests", "Give a part of the file")
        self.turns.add((row.session, row.turn))
        if row.session not in self.rows:
            self.places[row.session] = entry.place()
            self.parents[row.session] = _parent(row)
        self.rows.setdefault(row.session, []).append(row)


class OwnRequestsReader:
    """Read one request per line; the last line of a killed run may be cut."""

    name: ClassVar[str] = "requests"
    may_be_cut: ClassVar[bool] = True

    def claims(self, document: Document) -> bool:
        """Tell by keys that only our records have together."""
        return {"session", "turn", "sent_s", "predicted_prompt_tokens"} <= document.keys()

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read all requests, then sort them into sessions."""
        read = _Sessions()
        for entry in entries:
            read.add(entry)
        members: dict[str, list[str]] = {}
        found = roots(
            read.parents,
            lambda name, what: read.places[name].refuse("parent", what, "Correct the parents"),
        )
        for name in read.rows:
            members.setdefault(found[name], []).append(name)
        first_s = min((row.at_s for rows in read.rows.values() for row in rows), default=0.0)
        for root in sorted(members, key=_order):
            tag_tokens = rules.options.tag_tokens
            yield _trace(root, members[root], read, first_s, tag_tokens)


def _parent(row: _Row) -> str | None:
    """Name the parent: as recorded, else as our names say it (`parent.number`)."""
    if row.parent is not None or row.kind != "subagent":
        return row.parent
    return row.session.rpartition(".")[0] or None


def _order(session: str) -> tuple[int, str]:
    number = _NUMBER.search(session)
    return (int(number.group(1)) if number else 0, session)


def _trace(
    root: str, members: list[str], read: _Sessions, first_s: float, tag_tokens: int
) -> Trace:
    agents = {name: "" if name == root else name.removeprefix(f"{root}.") for name in members}
    parents = {
        agents[name]: agents.get(read.parents[name] or root, "") for name in members if name != root
    }
    rows = sorted((row for name in members for row in read.rows[name]), key=lambda row: row.at_s)
    growth = Growth(tag_tokens)
    calls = []
    for row in rows:
        made = CountedCall(
            agent=agents[row.session],
            at_s=row.at_s,
            input_tokens=row.predicted_prompt_tokens
            if row.prompt_tokens is None
            else row.prompt_tokens,
            output_tokens=row.output_tokens or 1,
            after_tool=row.kind in {"tool", "subagent"},
            system_tokens=row.attainable_tokens,
            parent=parents.get(agents[row.session]),
        )
        calls.append((growth.call(made), row.e2e_s))
    return Trace(
        name=root,
        calls=paced(calls),
        parents=parents,
        start_s=rows[0].at_s - first_s,
    )
