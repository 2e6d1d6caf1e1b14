"""Do the phases of a step in real regions, each so that it may be done again.

What to do next is decided in `fleet.rollout.state`, whether something is right in
`infra.rollout.checks`; here things are asked, touched and waited for. Every wait ends at the
strategy's deadline, and as soon as somebody asks to turn back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

from fleet.errors import ApplyError
from fleet.release import Release
from fleet.rollout.record import Outcome, Phase, Started
from fleet.rollout.state import Do
from fleet.rollout.strategy import Gates
from infra.rollout import fronting_phases
from infra.rollout.abreast import ABREAST, MOST_ABREAST, Halt, abreast, in_turn
from infra.rollout.applying import apply, assign, verify
from infra.rollout.checks import floor_broken, listed, pods_missing
from infra.rollout.cluster import AwayError
from infra.rollout.draining import drain
from infra.rollout.driver import Result
from infra.rollout.judging import smoke, watched
from infra.rollout.part import Part
from infra.rollout.preflight import preflight
from infra.rollout.region import SiteRegion
from infra.rollout.sharing import come, retreat
from infra.rollout.verdicts import OK, unsure, verdict
from infra.rollout.waiting import AWAY_S, Waiter

# What fails in these must not go on answering while people decide.
IN_ROUTING: frozenset[Phase] = frozenset({"registered", "smoke", "restore", "gates", "soak"})
_WORSE: tuple[Outcome, ...] = ("ok", "inconclusive", "failed")


@dataclass(frozen=True, kw_only=True)
class RegionsSite:
    """The regions of a rollout."""

    started: Started
    regions: Mapping[str, SiteRegion]
    waiter: Callable[[Callable[[], bool]], Waiter]
    # Told before a release is first applied: a lab has to know what it mocks.
    announce: Callable[[Release], None] = lambda _release: None
    say: Callable[[str], None] = lambda _text: None
    # Raises where a region may not be touched by this process (any more).
    require_held: Callable[[str], None] = lambda _region: None
    most_abreast: int = MOST_ABREAST  # regions in which a phase may wait at the same time

    @cached_property
    def _phases(self) -> Mapping[Phase, Callable[[Part], Result]]:
        return {
            "preflight": partial(preflight, started=self.started),
            "drain": self._drain,
            "assign": self._assign,
            "apply": partial(apply, started=self.started),
            "verify": verify,
            "ready": self._ready,
            "registered": self._registered,
            "smoke": self._smoke,
            "restore": self._restore,
            "gates": self._gates,
            "soak": self._soak,
        }

    @cached_property
    def _fronting_phases(self) -> Mapping[Phase, Callable[[Part], Result]]:
        """Give the phases of a step that changes what a region shares."""
        registered = partial(fronting_phases.registered, deadlines=self.started.deadlines)
        return {
            **self._phases,
            "drain": fronting_phases.drain,
            "verify": fronting_phases.verify,
            "ready": partial(fronting_phases.ready, deadlines=self.started.deadlines),
            "registered": registered,
            "restore": registered,
        }

    def do(self, action: Do, stop: Callable[[], bool]) -> Result:
        """Do one phase in each region of the step; the first of the worst results is the answer.

        A release that failed in one region stays in no other that has not proved it.
        """
        halt = Halt(stop)
        parts = {name: self._part(name, action, halt) for name in action.step.regions}
        regions = {name: partial(self._patiently, part) for name, part in parts.items()}
        if len(parts) > 1 and action.phase in ABREAST:
            came = abreast(regions, halt, self.most_abreast)
        else:
            came = in_turn(regions)
        worst = max(came, key=lambda name: _WORSE.index(came[name].outcome))
        outcome, why, counted = came[worst]
        if outcome == "ok":
            notes = [f"{name}: {came[name].why}" for name in parts if came[name].why]
            return Result("ok", listed(notes), counted)
        if outcome == "failed" and action.phase in IN_ROUTING and action.step.places:
            _take_out(parts, came, action.phase)
            why += "; taken out of routing"
        return Result(outcome, f"{worst}: {why}")

    def _part(self, name: str, action: Do, stop: Callable[[], bool]) -> Part:
        region = self.regions[name]
        return Part(
            region=region,
            replicas=tuple(p.replica for p in action.step.places if p.region == name),
            action=action,
            waiter=self.waiter(stop),
            forwards=action.target == self.started.new,
            require_held=self.require_held,
            sets=frozenset(map(region.stack.set_of, (self.started.old, self.started.new))),
        )

    def _patiently(self, part: Part) -> Result:
        """Do a phase, and do it again when an API server was away meanwhile and is back."""
        came: list[Result] = []

        def tried() -> str:
            try:
                self.require_held(part.region.cluster.region)
                phases = self._fronting_phases if part.shared else self._phases
                came.append(phases[part.action.phase](part))
            except AwayError as error:
                if not noted:
                    self.say(f"{error} The rollout waits for it.")
                noted.append(error)
                return str(error)
            return ""

        noted: list[AwayError] = []
        waited = part.waiter.until(tried, AWAY_S)
        return came[0] if came else unsure(waited)

    def _drain(self, part: Part) -> Result:
        """Take replicas away, if that is still possible: the preflight may be days old."""
        region = part.region
        floor = self.started.floor
        if low := floor_broken(region.serving(), region.racks, part.replicas, floor):
            return Result("inconclusive", low)
        return drain(part)

    def _assign(self, part: Part) -> Result:
        self.announce(part.region.stack.release(part.action.target))
        return assign(part, self.started)

    def _ready(self, part: Part) -> Result:
        target = part.action.target
        nodes = part.region.stack.release(target).nodes

        def missing() -> str:
            found = pods_missing(part.region.cluster.engines(), part.replicas, target, nodes)
            return found or (part.region.frontends_missing(part.target_set) if part.apart else "")

        waited = part.waiter.until(missing, self.started.deadlines.ready_s)
        return verdict(waited, "after the deadline `ready`")

    def _registered(self, part: Part) -> Result:
        """Wait until the frontends have the replicas: Ready alone is not enough.

        New pods are born into routing; one that an earlier try took out has to be put back.
        """
        part.route(on=True)
        waited = part.waiter.until(lambda: _absent(part), self.started.deadlines.registered_s)
        if waited.how == "held" and part.forwards and (other := part.other_cards()):
            return Result("failed", f"must not serve beside the others: {other}")
        return verdict(waited, "after the deadline `registered`")

    def _restore(self, part: Part) -> Result:
        """Look again, since the smoke may have taken a while; then sessions may come."""
        registered = self._registered(part)
        if registered.outcome != "ok":
            return registered
        waited = come(part)
        return OK if waited.how == "held" else unsure(waited)

    def _smoke(self, part: Part) -> Result:
        return smoke(part, self._limits(part))

    def _gates(self, part: Part) -> Result:
        return watched(part, self._limits(part), self.started.deadlines.gates_s)

    def _limits(self, part: Part) -> Gates:
        return self.started.gates.get(part.action.step.wave, Gates())

    def _soak(self, part: Part) -> Result:
        """Let time pass over the wave; a replica that is lost meanwhile ends it."""
        if not part.action.step.soak_s:
            return OK
        lost = ""
        look = fronting_phases.missing(part) if part.shared else partial(_absent, part)

        def quiet() -> str:
            nonlocal lost
            lost = look()
            return "" if lost else "soaking"

        waited = part.waiter.until(quiet, part.action.step.soak_s)
        if waited.how == "stopped":
            return unsure(waited)
        return Result("failed", f"while it soaked: {lost}") if lost else OK


def _take_out(parts: Mapping[str, Part], came: Mapping[str, Result], phase: Phase) -> None:
    """Take what failed out of routing, and what other regions have of the same step.

    Those did not prove it in this phase, and have the same release; where their API server is
    away they stay as they are. A wave that soaks was proved everywhere.
    """
    failed = [
        part for name, part in parts.items() if name in came and came[name].outcome == "failed"
    ]
    for part in failed:
        retreat(part)
        part.route(on=False)
    if phase == "soak":
        return
    for name, part in parts.items():
        if name not in came or came[name].outcome == "inconclusive":
            with suppress(ApplyError):
                retreat(part)
                part.route(on=False)


def _absent(part: Part) -> str:
    serving = part.region.serving()
    return listed(f"{name} is not in routing" for name in part.replicas if name not in serving)
