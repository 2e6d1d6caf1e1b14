"""Replay recorded agent sessions with text of our own.

A recording holds no text, only block ids or lengths. Every id becomes a fixed run of words, so two
prompts share exactly the prefix that their recordings shared; a compaction is simply a prompt that
leaves the others at some block.

Each session is a play of its own: what its recording shared inside one session is the same words
inside one play. Only the blocks of tools and system prompt are the same words in two plays, and
what a recording's ids or messages have in common over all sessions of the set. Sub-agents run as
sessions of their own, one call at a time in the order in which the calls were recorded.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loadtest.prompt.prompts import Message
from loadtest.prompt.words import EMPTY, Text, Vocabulary
from loadtest.replay.block_tree import BlockTree, BlockWords
from loadtest.replay.options import ReplayOptions
from loadtest.replay.recording import NO_BLOCKS, Call, Part, Trace
from loadtest.traffic.arrivals import POISSON, ArrivalProcess, RecordedArrivals
from loadtest.traffic.harness import Prefix
from loadtest.traffic.sessions import Scale, Seeds, Step

_REASONING_TOKENS = 64
"""Of an answer whose recording does not say what of it was reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Craft:
    """Hold what text is made with."""

    vocabulary: Vocabulary
    scale: Scale
    seeds: Seeds

    def message(self, part: Part, key: str) -> Message:
        """Write a part of a prompt; an answer is split into reasoning and content."""
        words = self.seeds.words("part", key, part.key)
        length = self.scale.length(part.tokens)
        if part.role != "assistant":
            return Message(role=part.role, content=self.vocabulary.draw(words, length))
        reasoning = min(self.scale.length(_REASONING_TOKENS), length // 2)
        return Message(
            role=part.role,
            reasoning=self.vocabulary.draw(words, reasoning),
            content=self.vocabulary.draw(words, length - reasoning),
        )


class TraceTraffic:
    """Play recordings one after the other, each session a new play."""

    def __init__(
        self, traces: Sequence[Trace], craft: Craft, options: ReplayOptions | None = None
    ) -> None:
        self._options = options or ReplayOptions()
        self._craft = craft
        self._traces = _by_start(traces[: self._options.max_sessions])

    def shared(self) -> Sequence[Message]:
        """Give the tools and system prompts that every play of a recording starts with."""
        given: dict[Part, Message] = {}
        messages: list[Message] = []
        for trace in self._traces:
            tree = self._tree(trace, 0)
            messages += [tree.messages(ids, 0)[0] for ids in trace.system]
            for part in _system_parts(trace):
                if part not in given:
                    given[part] = self._craft.message(part, "set")
        return [*messages, *given.values()]

    def prefixes(self) -> Sequence[Prefix]:
        """Give nothing: no tools are declared."""
        return ()

    @property
    def arrivals(self) -> ArrivalProcess:
        """Repeat the recorded starts of sessions, scaled; Poisson where there are none to repeat.

        Session n of a pass comes at its recorded time; between two passes is the mean gap.
        """
        times_s = self._arrivals_s()
        if times_s is None or times_s[-1] <= times_s[0]:
            return POISSON
        mean_s = (times_s[-1] - times_s[0]) / (len(times_s) - 1)
        return RecordedArrivals([times_s[0] - mean_s, *times_s])

    def _arrivals_s(self) -> list[float] | None:
        times = [trace.start_s for trace in self._traces if trace.start_s is not None]
        if len(times) < len(self._traces):
            return None
        return [self._craft.scale.gap_s(at_s) for at_s in times]

    @property
    def most_sessions(self) -> int | None:
        """Say how many sessions there are; None when the recordings are played again and again."""
        return None if self._options.loop else len(self._traces)

    def session(self, number: int) -> Iterator[Step]:
        """Yield the calls of one play; of a number beyond the last session there are none."""
        count = len(self._traces)
        if number >= count and not self._options.loop:
            return iter(())
        trace = self._traces[number % count]
        play = _Play(
            trace=trace,
            name=f"{self._craft.seeds.salt}-{number}",
            writer=self._writer(trace, number),
            craft=self._craft,
            options=self._options,
            start=self._start(trace, number),
        )
        return play.steps()

    def _start(self, trace: Trace, number: int) -> int:
        """Draw which call a session starts with."""
        options = self._options
        if not options.start_to:
            return 0
        lengths = self._craft.seeds.lengths("start", number)
        share = lengths.uniform(options.start_from, options.start_to)
        last_s = trace.calls[-1].at_s
        if not last_s:
            return int(share * len(trace.calls))
        return next(i for i, call in enumerate(trace.calls) if call.at_s >= share * last_s)

    def _writer(self, trace: Trace, number: int) -> _Writer:
        passes = number // len(self._traces)
        if not trace.block_size:
            return _PartWriter(self._craft, f"{number}", f"set/{passes}")
        if trace.scope == "set":
            seeds = self._craft.seeds
            return _SetWriter(self._words(trace), f"{seeds.seed}/{seeds.salt}/set/{passes}")
        return _TreeWriter(self._tree(trace, number))

    def _words(self, trace: Trace) -> BlockWords:
        return BlockWords(
            vocabulary=self._craft.vocabulary,
            block_size=trace.block_size,
            token_scale=self._craft.scale.tokens,
        )

    def _tree(self, trace: Trace, number: int) -> BlockTree:
        seeds = self._craft.seeds
        key = f"{seeds.seed}/{seeds.salt}/{trace.name}"
        return BlockTree(
            words=self._words(trace),
            system=trace.system,
            shared_key=f"{key}/shared",
            private_key=f"{key}/{number}",
        )


def _by_start(traces: Sequence[Trace]) -> Sequence[Trace]:
    """Put recordings into the order in which they began, where all of them say so."""
    if any(trace.start_s is None for trace in traces):
        return traces
    return sorted(traces, key=lambda trace: trace.start_s or 0.0)


def _system_parts(trace: Trace) -> Iterator[Part]:
    for call in trace.calls:
        first = call.parts[0] if call.parts and not call.keep else None
        if first is not None and first.common and first.role == "system":
            yield first


class _Writer(Protocol):
    """Write the prompts of one play, in the order of its calls."""

    def messages(self, call: Call, tail: random.Random) -> list[Message]:
        """Give a prompt, its last message a user's; `tail` decides words that nobody shares."""
        ...


@dataclass(slots=True)
class _TreeWriter:
    """Write prompts of blocks whose ids mean something in this session only."""

    tree: BlockTree
    _ids: dict[str, array[int]] = field(default_factory=dict)
    _output: dict[str, int] = field(default_factory=dict)

    def messages(self, call: Call, tail: random.Random) -> list[Message]:
        words = self.tree.words
        before = self._ids.get(call.agent, NO_BLOCKS)
        ids = self._ids[call.agent] = before[: call.keep] + call.blocks
        grown = call.keep == len(before)
        answer_blocks = self._output.get(call.agent, 0) // words.block_size if grown else 0
        self._output[call.agent] = call.output_tokens
        messages = self.tree.messages(ids, answer_blocks, call.agent)
        text = _tail(words, call, len(ids), tail, self.tree.private_key)
        if text is EMPTY and messages and messages[-1].role == "user":
            return messages
        if text is EMPTY:
            text = words.vocabulary.draw(tail, 1)
        return [*messages, Message(role="user", content=text)]


@dataclass(slots=True)
class _SetWriter:
    """Write prompts of blocks whose ids mean the same in all sessions: one message each.

    Where a message ends in one session nobody knows in another, and tags in the middle of what
    two sessions share would end their sharing.
    """

    words: BlockWords
    key: str
    _latest: dict[str, tuple[array[int], Text]] = field(default_factory=dict)

    def messages(self, call: Call, tail: random.Random) -> list[Message]:
        before, text = self._latest.get(call.agent, (NO_BLOCKS, EMPTY))
        ids = before[: call.keep] + call.blocks
        if call.keep == len(before):
            text = _joined(text, self.words.write(call.blocks, call.keep, self.key))
        else:
            text = self.words.write(ids, 0, self.key)
        self._latest[call.agent] = (ids, text)
        whole = _joined(text, _tail(self.words, call, len(ids), tail, self.key))
        if whole is EMPTY:
            whole = self.words.vocabulary.draw(tail, 1)
        return [Message(role="user", content=whole)]


@dataclass(slots=True)
class _PartWriter:
    """Write prompts of parts; each part is written once and stays the same object."""

    craft: Craft
    own_key: str
    set_key: str
    _history: dict[str, list[Message]] = field(default_factory=dict)

    def messages(self, call: Call, tail: random.Random) -> list[Message]:
        del tail  # a part's words follow from its key
        base = self._history.get(call.agent if call.base is None else call.base, [])
        history = [*base[: call.keep], *[self._message(part) for part in call.parts]]
        self._history[call.agent] = history
        return list(history)

    def _message(self, part: Part) -> Message:
        if not part.common:
            return self.craft.message(part, self.own_key)
        return self.craft.message(part, "set" if part.role == "system" else self.set_key)


def _tail(words: BlockWords, call: Call, blocks: int, rng: random.Random, key: str) -> Text:
    """Write what a prompt has beyond its whole blocks."""
    count = int(call.input_tokens / words.token_scale) - words.count(blocks)
    if count <= 0:
        return EMPTY
    if call.tail_id is not None:
        return words.start_of(call.tail_id, key, count)
    return words.vocabulary.draw(rng, count)


def _joined(one: Text, two: Text) -> Text:
    if one is EMPTY or two is EMPTY:
        return two if one is EMPTY else one
    return Text(one.text + two.text, one.tokens + two.tokens)


@dataclass(slots=True, kw_only=True)
class _Play:
    """Hold one play of a recording while it runs."""

    trace: Trace
    name: str
    writer: _Writer
    craft: Craft
    options: ReplayOptions
    start: int

    def steps(self) -> Iterator[Step]:
        turns: dict[str, int] = {}
        for index, call in enumerate(self.trace.calls):
            tail = self.craft.seeds.words(self.name, call.agent, index, "tail")
            messages = self.writer.messages(call, tail)
            if index < self.start:
                continue
            turn = turns[call.agent] = turns.get(call.agent, 0) + 1
            yield Step(
                session=self._session(call.agent),
                parent=self._session(self.trace.parents.get(call.agent, ""))
                if call.agent
                else None,
                turn=turn,
                kind=self._kind(call, turn),
                gap_s=self._gap_s(call, index),
                messages=tuple(messages),
                output_tokens=self.craft.scale.length(call.output_tokens),
            )

    def _session(self, agent: str) -> str:
        return f"{self.name}.{agent}" if agent else self.name

    def _gap_s(self, call: Call, index: int) -> float:
        if not self.options.pauses or index == self.start:
            return 0.0
        cap_s = self.options.idle_cap_s
        gap_s = call.gap_s if cap_s is None else min(call.gap_s, cap_s)
        return self.craft.scale.gap_s(gap_s)

    def _kind(self, call: Call, turn: int) -> str:
        if call.agent:
            return "subagent"
        if turn == 1:
            return "resume" if self.start else "first"
        return "tool" if call.after_tool else "user"
