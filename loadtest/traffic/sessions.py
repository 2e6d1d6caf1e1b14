"""Generate agentic coding sessions: pure, seeded, one step per call of the model.

Two random streams per session: lengths and gaps depend on the seed and the session's number alone
(`loadtest/traffic/session_outline.py`), words also on the run's salt. So two runs with one seed
send the same load, and the second finds nothing of the first in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from loadtest.prompt.prompts import Message, ToolSet
from loadtest.prompt.words import Vocabulary
from loadtest.traffic.arrivals import ArrivalProcess, Arrivals
from loadtest.traffic.harness import PLAIN, Harness, HarnessOptions, Prefix
from loadtest.traffic.outline import Call
from loadtest.traffic.profile_schema import Profile
from loadtest.traffic.scale import Scale, Seeds
from loadtest.traffic.session_outline import session_outline
from loadtest.traffic.writer import Writer

__all__ = ["ProfileTraffic", "Scale", "Seeds", "Step", "Traffic"]


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

    def prefixes(self) -> Sequence[Prefix]:
        """Give what sessions start with: system prompts, each with the tools declared with it."""
        ...

    @property
    def arrivals(self) -> ArrivalProcess:
        """Give the process by which sessions arrive in an open loop."""
        ...

    @property
    def most_sessions(self) -> int | None:
        """Say how many sessions there are, None when they never end."""
        ...


class ProfileTraffic:
    """Run the state machine of a profile."""

    def __init__(
        self,
        profile: Profile,
        vocabulary: Vocabulary,
        scale: Scale,
        seeds: Seeds,
        options: HarnessOptions = PLAIN,
    ) -> None:
        self._profile = profile
        self._vocabulary = vocabulary
        self._scale = scale
        self._seeds = seeds
        self._images = options.images
        self._harness = Harness(profile, vocabulary, scale, seeds, with_tools=options.tools)

    @property
    def arrivals(self) -> ArrivalProcess:
        """Give the process by which sessions arrive in an open loop."""
        arrivals: Arrivals = self._profile.arrivals
        return arrivals

    @property
    def most_sessions(self) -> None:
        """Give None: sessions are drawn for ever."""
        return None

    def prefixes(self) -> Sequence[Prefix]:
        """Give what sessions and sub-agents start with, for each version of the harness."""
        return self._harness.prefixes()

    def shared(self) -> Sequence[Message]:
        """Give the system prompts to be warmed; none when the profile wants a cold start."""
        if not self._profile.shared_is_warm:
            return ()
        return [prefix.system for prefix in self.prefixes()]

    def session(self, number: int) -> Iterator[Step]:
        """Yield the steps of one session."""
        name = f"{self._seeds.salt}-{number}"
        writer = Writer(
            vocabulary=self._vocabulary,
            rng=self._seeds.words("session", number),
            harness=self._harness,
            with_images=self._images,
        )
        lengths = self._seeds.lengths("session", number)
        for call in session_outline(self._profile, self._scale, lengths):
            yield self._step(name, call, writer)

    def _step(self, name: str, call: Call, writer: Writer) -> Step:
        messages, tools = writer.write(call)
        return Step(
            session=f"{name}.{call.agent}" if call.agent else name,
            parent=name if call.agent else None,
            turn=call.turn,
            kind=call.kind,
            gap_s=self._scale.gap_s(self._cut(call.gap_s)),
            messages=messages,
            output_tokens=call.output_tokens,
            cancel_after=call.cancel_after,
            tools=tools,
        )

    def _cut(self, gap_s: float) -> float:
        cap_s = self._profile.gap_cap_s
        return gap_s if cap_s is None else min(gap_s, cap_s)
