"""Draw the outline of a session: the state machine of a profile.

All of it comes from one random stream of the session, so an outline can be drawn alone and fast
(`loadtest/traffic/statistics.py` draws thousands). Words come from another stream
(`loadtest/traffic/sessions.py`), so that two runs with other words send the same load.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from loadtest.traffic.outline import Call, Dice, Kind, Piece, Shared
from loadtest.traffic.profile_schema import Profile, Subagents
from loadtest.traffic.scale import Scale


def session_outline(profile: Profile, scale: Scale, rng: random.Random) -> Iterator[Call]:
    """Yield the calls of one session; a sub-agent's stand where its parent waits for them."""
    ranks = range(profile.harness_variants)
    variant = rng.choices(ranks, [1 / (rank + 1) for rank in ranks])[0]  # Zipf
    dice = Dice(profile, scale, rng)
    agent = _Agent(
        dice, "", ("harness", variant), _system(scale.length(profile.shared_prefix_tokens))
    )
    subagents = 0
    turns = 1 if rng.random() < profile.single_turn_share else dice.count(profile.human_turns)
    for human_turn in range(turns):
        for call in agent.human_turn(is_first=human_turn == 0):
            yield call
            own = profile.subagents
            if own is not None and agent.waits_for_tools and dice.chance(own.share):
                subagents += 1
                yield from _subagent(agent, own, str(subagents), variant)
        if agent.is_full:
            return


def _subagent(parent: _Agent, own: Subagents, name: str, variant: int) -> Iterator[Call]:
    """Let a sub-agent work to its end; the parent waits for it."""
    dice = parent.dice
    if dice.chance(own.fork_share):
        child = parent.fork(name)
    else:
        system = _system(dice.scale.length(own.prompt_tokens))
        child = _Agent(dice, name, ("subagent", variant), system)
    child.add_user(dice.length(dice.profile.user_tokens))
    return child.steps("subagent", 0.0, dice.count(own.steps))


def _system(tokens: int) -> Piece:
    return Piece(0, "system", tokens)


@dataclass(slots=True)
class _Agent:
    """Hold one conversation while it grows: a session's own, or a sub-agent's."""

    dice: Dice
    name: str
    prefix: Shared
    system: Piece
    forks: bool = False
    history: list[Piece] = field(default_factory=list)
    tokens: int = 0
    kept: int = 0
    """Messages that stand in the history since the call before."""
    stripped: int = 0
    """Messages at the start of the history that have no reasoning any more."""
    turn: int = 0
    is_full: bool = False

    def __post_init__(self) -> None:
        """Start with the system prompt, unless there is a history already."""
        if not self.history:
            self._rewrite(0, [self.system])

    def fork(self, name: str) -> _Agent:
        """Give a sub-agent that goes on from the prompt of the call before."""
        prompt = self.history[:-1]
        tokens = self.tokens - self.history[-1].size
        return _Agent(
            dice=self.dice,
            name=name,
            prefix=self.prefix,
            system=self.system,
            forks=True,
            history=prompt,
            tokens=tokens,
            kept=len(prompt),
        )

    @property
    def waits_for_tools(self) -> bool:
        """Say whether the last answer called tools."""
        return bool(self.history[-1].arguments)

    def human_turn(self, *, is_first: bool) -> Iterator[Call]:
        """Yield the calls of one question and all work that it causes."""
        dice, profile = self.dice, self.dice.profile
        if is_first:
            resumed = profile.resumed
            kind: Kind = "first"
            size, steps, gap_s = profile.private_prompt_tokens, profile.first_turn_steps, 0.0
            if resumed is not None and dice.chance(resumed.share):
                kind, size = "resume", resumed.tokens
        else:
            kind, size, steps = "user", profile.user_tokens, profile.later_turn_steps
            gap_s = profile.human_gap_s.draw(dice.rng)
            if profile.reasoning_replay == "within_turn":
                self._strip_reasoning()
        length = dice.length(size)
        self.add(Piece(dice.key(), "user", length, images=dice.images()))
        yield from self.steps(kind, gap_s, dice.count(steps))

    def steps(self, kind: Kind, gap_s: float, count: int) -> Iterator[Call]:
        """Yield calls until the work is done or the context is full."""
        for number in range(count):
            if number:
                kind, gap_s = self._go_on()
            if self._compact():
                kind = "compaction"
            call = self._call(kind, gap_s, is_last=number == count - 1)
            if call is None:
                self.is_full = True
                return
            yield call

    def add_user(self, tokens: int) -> None:
        """Add what somebody says to the agent."""
        self.add(Piece(self.dice.key(), "user", tokens))

    def add(self, piece: Piece) -> None:
        """Add a message to the history."""
        self.history.append(piece)
        self.tokens += piece.size

    def _go_on(self) -> tuple[Kind, float]:
        """Add what the tools found, or, after a cancelled answer, what the person says instead."""
        dice, profile = self.dice, self.dice.profile
        calls = len(self.history[-1].arguments)
        kind: Kind = "tool" if calls else "user"
        if calls:
            total = dice.length(profile.tool_tokens, least=calls)
            for part in dice.parts(total, calls):
                self.add(Piece(dice.key(), "tool", part))
        else:
            self.add_user(dice.length(profile.user_tokens))
        gap_s = profile.tool_gap_fixed_s + profile.tool_gap_s.draw(dice.rng)
        return ("subagent" if self.name else kind), gap_s

    def _compact(self) -> bool:
        """Replace a history that has grown too long by a summary of it."""
        compaction = self.dice.profile.compaction
        if compaction is None or self.tokens < self.dice.scale.length(compaction.at_tokens):
            return False
        summary = self.dice.length(compaction.tokens)
        self._rewrite(1, [Piece(self.dice.key(), "user", summary)])
        return True

    def _strip_reasoning(self) -> None:
        """Take the reasoning out of all answers, as some chat templates do at a new question."""
        answers = self.history[self.stripped :]
        first = next((at for at, piece in enumerate(answers) if piece.reasoning), None)
        if first is not None:
            self.tokens -= sum(piece.reasoning for piece in answers)
            kept = self.stripped + first
            self.history[kept:] = [piece._replace(reasoning=0) for piece in answers[first:]]
            self.kept = min(self.kept, kept)
        self.stripped = len(self.history)

    def _rewrite(self, kept: int, pieces: list[Piece]) -> None:
        self.history[kept:] = pieces
        self.tokens = sum(piece.size for piece in self.history)
        self.kept = min(self.kept, kept)
        self.stripped = kept

    def _call(self, kind: Kind, gap_s: float, *, is_last: bool) -> Call | None:
        """Make a call of the history and add its answer; None when it would pass the context."""
        dice, profile = self.dice, self.dice.profile
        calls = 0 if is_last else dice.tool_calls()
        output = dice.length(profile.output_tokens, least=max(1, calls))
        if self.tokens + output > dice.scale.length(profile.context_tokens):
            return None
        cancelled = dice.chance(profile.cancel_share)
        answer = None if cancelled else self._answer(output, calls)
        self.turn += 1
        call = Call(
            agent=self.name,
            prefix=self.prefix,
            forks=self.forks and self.turn == 1,
            turn=self.turn,
            kind=kind,
            gap_s=gap_s,
            kept=self.kept,
            added=tuple(self.history[self.kept :]),
            prompt_tokens=self.tokens,
            output_tokens=output,
            answer=answer,
            cancel_after=dice.rng.random() if cancelled else None,
        )
        if answer is not None:
            self.add(answer)
        self.kept = len(self.history)
        return call

    def _answer(self, output: int, calls: int) -> Piece:
        """Divide an answer into reasoning, text and the arguments of its tool calls."""
        dice, profile = self.dice, self.dice.profile
        reasoning = min(round(output * profile.reasoning_share), output - calls)
        visible = output - reasoning
        replayed = 0 if profile.reasoning_replay == "never" else reasoning
        if not calls:
            return Piece(dice.key(), "assistant", visible, replayed)
        written = max(calls, round(visible * profile.tool_call_share))
        arguments = tuple(dice.parts(written, calls))
        return Piece(dice.key(), "assistant", visible - written, replayed, arguments)
