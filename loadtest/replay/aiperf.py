"""Read AIPerf's conversations: `multi_turn` and `dag_jsonl`, one conversation per line.

Source: github.com/ai-dynamo/aiperf, docs/benchmark-modes/dag.md and the loader's models. A line is
`{"session_id", "turns"}`; a turn has `messages` or `text`/`texts`, `max_tokens` or
`output_length`, `delay` in ms, and starts others with `forks` (they inherit its history) and
`spawns` (they do not). An `orchestrator` sends nothing and only spawns, in `rounds` if it has them.
Turns add to the history, with the answers between them; with `context_mode`
"message_array_with_responses" each turn is the whole prompt.

Sessions that run at once there run one after the other here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, Field

from loadtest.replay.files import Document, Entry, Recorded
from loadtest.replay.reading import Rules
from loadtest.replay.recording import (
    MAX_CALLS,
    MAX_SECONDS,
    MAX_TOKENS,
    Call,
    Part,
    Trace,
    kept,
)
from loadtest.replay.transcript import OUTPUT_TOKENS, Transcript, check_length, sendable

_MAX_DEPTH = 64
_MAX_ROUNDS = 10_000
_WHOLE_PROMPTS = "message_array_with_responses"
_FIX = "Correct the conversation"

_Ms = Annotated[float, Field(ge=0, le=MAX_SECONDS * 1000, allow_inf_nan=False)]


class _Spawn(Recorded):
    children: list[str]


class _Fork(Recorded):
    child: str


class _Turn(Recorded):
    messages: list[Any] | None = None
    tools: list[Any] | None = None
    text: str | None = None
    texts: list[str] | None = None
    role: str = "user"
    output_tokens: int | None = Field(
        None, ge=0, le=MAX_TOKENS, validation_alias=AliasChoices("max_tokens", "output_length")
    )
    delay: _Ms | None = None
    forks: list[str | _Fork] = Field(default_factory=list)
    spawns: list[str | _Spawn] = Field(default_factory=list)

    @property
    def forked(self) -> list[str]:
        return [item if isinstance(item, str) else item.child for item in self.forks]

    @property
    def spawned(self) -> list[str]:
        return [name for item in self.spawns for name in _children(item)]


class _Round(Recorded):
    spawns: list[str]
    think_time_ms: _Ms = 0.0


class _Conversation(Recorded):
    session_id: str | None = Field(None, min_length=1, max_length=200)
    turns: list[_Turn] = Field(default_factory=list)
    pre_session_spawns: list[str] = Field(default_factory=list)
    orchestrator: bool = False
    spawns: list[str] = Field(default_factory=list)
    rounds: int | list[_Round] = 1
    think_time_ms: _Ms = 0.0
    context_mode: str | None = None

    @property
    def all_rounds(self) -> list[_Round]:
        if isinstance(self.rounds, list):
            return self.rounds
        once = _Round(spawns=self.spawns, think_time_ms=self.think_time_ms)
        return [once] * self.rounds


def _children(item: str | _Spawn) -> list[str]:
    return [item] if isinstance(item, str) else item.children


@dataclass(slots=True)
class _File:
    """Hold all conversations by name."""

    conversations: dict[str, tuple[Entry, _Conversation]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        read = entry.read(_Conversation, entry.data)
        name = read.session_id or f"line {len(self.conversations) + 1}"
        if name in self.conversations:
            entry.refuse("session_id", f"{name} was read before", "Give each its own")
        if not read.turns and not read.orchestrator:
            entry.refuse("turns", "holds no turn", _FIX)
        if isinstance(read.rounds, int) and not 1 <= read.rounds <= _MAX_ROUNDS:
            entry.refuse("rounds", f"is not from 1 to {_MAX_ROUNDS}", _FIX)
        self.conversations[name] = (entry.place(), read)

    def roots(self) -> list[str]:
        """Give the conversations that no other starts; refuses starts of what is not there."""
        started: set[str] = set()
        for entry, read in self.conversations.values():
            for place, name in _starts(read):
                if name not in self.conversations:
                    what = f"starts {name:.200}, which is not in the file"
                    entry.refuse(place, what, "Add that conversation, or leave it out")
                started.add(name)
        found = [name for name in self.conversations if name not in started]
        if not found and self.conversations:
            entry, _ = next(iter(self.conversations.values()))
            entry.refuse("turns", "each conversation is started by another: a circle", _FIX)
        return found


def _starts(read: _Conversation) -> Iterator[tuple[str, str]]:
    for name in read.pre_session_spawns:
        yield "pre_session_spawns", name
    for round_ in read.all_rounds:
        for name in round_.spawns:
            yield "spawns", name
    for index, turn in enumerate(read.turns):
        for name in turn.forked:
            yield f"turns[{index}].forks", name
        for name in turn.spawned:
            yield f"turns[{index}].spawns", name


class AIPerfReader:
    """Read one conversation per line."""

    name: ClassVar[str] = "aiperf"
    may_be_cut: ClassVar[bool] = False

    def claims(self, document: Document) -> bool:
        """Tell by the turns, or by an orchestrator that has none."""
        return "turns" in document or "orchestrator" in document

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read all conversations, then play each that no other starts."""
        file = _File()
        for entry in entries:
            file.add(entry)
        made = 0
        for name in file.roots():
            play = _Play(file, Transcript(rules.count), made)
            play.conversation(name, "", (), None)
            made += len(play.calls)
            if play.calls:
                yield Trace(name=name, calls=tuple(play.calls), parents=play.parents)


@dataclass(slots=True)
class _Play:
    """Hold one tree of conversations while it is laid out, call after call."""

    file: _File
    transcript: Transcript
    made_before: int
    calls: list[Call] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    histories: dict[str, list[Part]] = field(default_factory=dict)
    wait_ms: float = 0.0
    visits: int = 0

    def conversation(self, name: str, agent: str, path: tuple[str, ...], base: str | None) -> None:
        """Lay out a conversation and what it starts; `base` is whose history it inherits."""
        entry, read = self.file.conversations[name]
        self._check(entry, name, path)
        path = (*path, name)
        if base is not None:
            self.histories[agent] = list(self.histories[base])
        for child in read.pre_session_spawns:
            self._start(child, agent, path, None)
        if read.orchestrator:
            for round_ in read.all_rounds:
                self.wait_ms += round_.think_time_ms
                for child in round_.spawns:
                    self._start(child, agent, path, None)
        for index, turn in enumerate(read.turns):
            self._turn(entry, read, index, agent, base if index == 0 else None)
            for child in turn.spawned:
                self._start(child, agent, path, None)
            for child in turn.forked:
                self._start(child, agent, path, agent)

    def _check(self, entry: Entry, name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            entry.refuse("session_id", f"conversations go in a circle: {circle:.300}", _FIX)
        self.visits += 1
        if len(path) > _MAX_DEPTH or self.made_before + self.visits > MAX_CALLS:
            what = f"more than {MAX_CALLS} starts, or {_MAX_DEPTH} inside one another"
            entry.refuse("session_id", what, _FIX)

    def _start(self, child: str, parent: str, path: tuple[str, ...], base: str | None) -> None:
        agent = f"{len(self.parents) + 1}"
        self.parents[agent] = parent
        self.conversation(child, agent, path, base)

    def _turn(
        self, entry: Entry, read: _Conversation, index: int, agent: str, base: str | None
    ) -> None:
        turn, place = read.turns[index], f"turns[{index}]"
        if self.made_before + len(self.calls) >= MAX_CALLS:
            entry.refuse(place, f"more than {MAX_CALLS} calls", "Give a part of the file")
        before = self.histories.get(agent, [])
        said = self._said(entry, turn, place)
        if read.context_mode == _WHOLE_PROMPTS:
            history = sendable([], said)
        else:
            history = before + sendable(before, [*self._answer(agent, base), *said])
        keep = kept(before, history)
        self.histories[agent] = history
        gap_s = ((turn.delay or 0.0) + self.wait_ms) / 1000
        self.wait_ms = 0.0
        self.calls.append(
            Call(
                agent=agent,
                at_s=(self.calls[-1].at_s if self.calls else 0.0) + gap_s,
                gap_s=gap_s,
                input_tokens=check_length(entry, place, history),
                output_tokens=_output(turn),
                after_tool=_last_role(turn) == "tool",
                keep=keep,
                base=base,
                parts=tuple(history[keep:]),
            )
        )

    def _said(self, entry: Entry, turn: _Turn, place: str) -> list[Part]:
        tools = self.transcript.tools(entry, f"{place}.tools", turn.tools)
        if turn.messages is not None:
            return tools + self.transcript.parts(entry, f"{place}.messages", turn.messages)
        texts = turn.texts or ([turn.text] if turn.text is not None else [])
        if not texts:
            entry.refuse(place, "has neither messages nor text", "Pictures alone are not replayed")
        messages = [{"role": turn.role, "content": text} for text in texts]
        return tools + self.transcript.parts(entry, place, messages)

    def _answer(self, agent: str, base: str | None) -> Sequence[Part]:
        """Give the answer to the call before, with words that nobody else has."""
        whose = agent if base is None else base
        for number in range(len(self.calls) - 1, -1, -1):
            if self.calls[number].agent == whose:
                tokens = self.calls[number].output_tokens
                return [Part("assistant", tokens, f"answer/{number}")]
        return []


def _output(turn: _Turn) -> int:
    return OUTPUT_TOKENS if turn.output_tokens is None else turn.output_tokens


def _last_role(turn: _Turn) -> Any:
    last = turn.messages[-1] if turn.messages else None
    return last.get("role") if isinstance(last, dict) else turn.role
