"""Generate agentic coding sessions: pure, seeded, one step per call of the model.

Two random streams per session: lengths and gaps depend on the seed and the session's number alone,
words also on the run's salt. So two runs with one seed send the same load, and the second finds
nothing of the first in a cache.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from loadtest.profiles import LogNormal, Profile
from loadtest.prompts import Message, ToolSet
from loadtest.words import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Hold one call: the whole prompt, the size of the answer, the pause before it."""

    session: str
    parent: str | None
    turn: int
    kind: str
    gap_s: float
    messages: tuple[Message, ...]
    output_tokens: int
    cancel_after: float | None = None
    """Share of the answer after which the client hangs up; None: it reads to the end."""
    tools: ToolSet | None = None
    """What the harness declares; one object for all its sessions."""


class Traffic(Protocol):
    """Give sessions by number; the same number gives the same session."""

    def session(self, number: int) -> Iterator[Step]:
        """Yield the steps of one session, sub-agents' steps in between."""
        ...

    def shared(self) -> Sequence[Message]:
        """Give the system prompts that many sessions start with, to be warmed before the test."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Shrink production traffic to the machine: lengths ÷ tokens, gaps ÷ time."""

    tokens: float
    time: float

    def length(self, tokens: float, least: int = 1) -> int:
        """Scale a token count."""
        return max(least, round(tokens / self.tokens))

    def gap_s(self, seconds: float) -> float:
        """Scale a pause."""
        return seconds / self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """Hold what decides a run's lengths (`seed`) and its words (`salt` as well)."""

    seed: int
    salt: str

    def lengths(self, *names: object) -> random.Random:
        """Make the stream of lengths and gaps of one named thing."""
        return random.Random(f"{self.seed}/{'/'.join(map(str, names))}")  # noqa: S311 - no secret

    def words(self, *names: object) -> random.Random:
        """Make the stream of words of one named thing."""
        return self.lengths("words", self.salt, *names)


class ProfileTraffic:
    """Run the state machine of a profile."""

    def __init__(
        self, profile: Profile, vocabulary: Vocabulary, scale: Scale, seeds: Seeds
    ) -> None:
        self._profile = profile
        self._vocabulary = vocabulary
        self._scale = scale
        self._seeds = seeds
        length = scale.length(profile.shared_prefix_tokens)
        self._shared = [
            Message(role="system", content=vocabulary.draw(seeds.words("shared", variant), length))
            for variant in range(profile.harness_variants)
        ]
        self._popularity = [1 / rank for rank in range(1, profile.harness_variants + 1)]

    def shared(self) -> Sequence[Message]:
        """Give the system prompt of each harness version."""
        return self._shared

    def session(self, number: int) -> Iterator[Step]:
        """Yield the steps of one session."""
        lengths = self._seeds.lengths("session", number)
        state = _Session(
            name=f"{self._seeds.salt}-{number}",
            profile=self._profile,
            scale=self._scale,
            lengths=lengths,
            writer=_Writer(self._vocabulary, self._seeds.words("session", number)),
            system=lengths.choices(self._shared, self._popularity)[0],
        )
        return state.steps()


@dataclass(frozen=True, slots=True)
class _Writer:
    vocabulary: Vocabulary
    rng: random.Random

    def user(self, tokens: int) -> Message:
        return Message(role="user", content=self.vocabulary.draw(self.rng, tokens))

    def assistant(self, tokens: int, reasoning_share: float) -> Message:
        reasoning = round(tokens * reasoning_share)
        return Message(
            role="assistant",
            reasoning=self.vocabulary.draw(self.rng, reasoning),
            content=self.vocabulary.draw(self.rng, tokens - reasoning),
        )


@dataclass(slots=True, kw_only=True)
class _Session:
    """Hold one conversation while it grows."""

    name: str
    profile: Profile
    scale: Scale
    lengths: random.Random
    writer: _Writer
    system: Message
    history: list[Message] = field(default_factory=list)
    turn: int = 0
    subagents: int = 0

    def steps(self) -> Iterator[Step]:
        profile = self.profile
        turns = 1
        if self.lengths.random() >= profile.single_turn_share:
            turns = self._count(profile.human_turns)
        for human_turn in range(turns):
            first = human_turn == 0
            kind = self._open_session() if first else self._ask()
            gap_s = 0.0 if first else profile.human_gap_s.draw(self.lengths)
            count = self._count(profile.first_turn_steps if first else profile.later_turn_steps)
            for number in range(count):
                if number:
                    kind, gap_s = "tool", self._take_tool_result()
                if self._compact():
                    kind = "compaction"
                yield self._call(kind, gap_s)
                if self.lengths.random() < profile.subagent_share:
                    yield from self._subagent()

    def _count(self, distribution: LogNormal) -> int:
        return max(1, round(distribution.draw(self.lengths)))

    def _length(self, distribution: LogNormal) -> int:
        return self.scale.length(distribution.draw(self.lengths))

    def _open_session(self) -> str:
        resumed = self.lengths.random() < self.profile.resumed_share
        size = self.profile.resumed_tokens if resumed else self.profile.private_prompt_tokens
        self.history = [self.system, self.writer.user(self._length(size))]
        return "resume" if resumed else "first"

    def _ask(self) -> str:
        self.history.append(self.writer.user(self._length(self.profile.user_tokens)))
        return "user"

    def _take_tool_result(self) -> float:
        self.history.append(self.writer.user(self._length(self.profile.tool_tokens)))
        return self.profile.tool_gap_fixed_s + self.profile.tool_gap_s.draw(self.lengths)

    def _compact(self) -> bool:
        """Replace a history that has grown too long by a summary of it."""
        grown = sum(len(message.content) + len(message.reasoning) for message in self.history)
        if grown < self.scale.length(self.profile.compaction_at_tokens):
            return False
        summary = self._length(self.profile.compaction_tokens)
        self.history = [self.system, self.writer.user(summary)]
        return True

    def _call(self, kind: str, gap_s: float) -> Step:
        self.turn += 1
        output = self._length(self.profile.output_tokens)
        step = Step(
            session=self.name,
            parent=None,
            turn=self.turn,
            kind=kind,
            gap_s=self.scale.gap_s(gap_s),
            messages=tuple(self.history),
            output_tokens=output,
        )
        self.history.append(self.writer.assistant(output, self.profile.reasoning_share))
        return step

    def _subagent(self) -> Iterator[Step]:
        """Run a helper with its own prompt to its end; the parent waits."""
        self.subagents += 1
        profile = self.profile
        size = self.scale.length(profile.subagent_prompt_tokens)
        child = _Session(
            name=f"{self.name}.{self.subagents}",
            profile=profile,
            scale=self.scale,
            lengths=self.lengths,
            writer=self.writer,
            system=replace(self.writer.user(size), role="system"),
        )
        child.history = [child.system, self.writer.user(self._length(profile.user_tokens))]
        for number in range(self._count(profile.subagent_steps)):
            gap_s = child._take_tool_result() if number else 0.0
            yield replace(child._call("subagent", gap_s), parent=self.name)
