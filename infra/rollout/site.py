"""Do the phases of a step in real regions, each so that it may be done again.

What to do next is decided in `fleet.rollout.state`, whether something is right in
`infra.rollout.checks`; here things are asked, touched and waited for. Every wait ends at the
strategy's deadline, and as soon as somebody asks to turn back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

from fleet.errors import ApplyError
from fleet.release import Release
from fleet.rollout.record import Phase, Seen, Started
from fleet.rollout.state import Do
from fleet.rollout.strategy import Gates
from infra.rollout import fronting_phases
from infra.rollout.checks import (
    SetsTurn,
    differs,
    floor_broken,
    listed,
    pods_missing,
    touches_others,
    weights_missing,
)
from infra.rollout.cluster import AwayError
from infra.rollout.draining import drain
from infra.rollout.driver import Result
from infra.rollout.fronting import seen, touches_more
from infra.rollout.judging import smoke, watched
from infra.rollout.part import Part, named
from infra.rollout.region import SiteRegion
from infra.rollout.sharing import come, retreat, strewn
from infra.rollout.verdicts import OK, left_alone, unsure, verdict
from infra.rollout.waiting import Waiter
from infra.stack_events import Touched

# An update that a killed driver left behind goes on by itself; it ends within this, or somebody
# has to look at it.
LOCKED_S = 300.0
# An API server may be away for a while (an upgrade, a lost machine of etcd); then people decide.
AWAY_S = 300.0
# What fails in these must not go on answering while people decide.
IN_ROUTING: frozenset[Phase] = frozenset({"registered", "smoke", "restore", "gates", "soak"})


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

    @cached_property
    def _phases(self) -> Mapping[Phase, Callable[[Part], Result]]:
        return {
            "preflight": self._preflight,
            "drain": self._drain,
            "assign": self._assign,
            "apply": self._apply,
            "verify": self._verify,
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
        """Do one phase in each region of the step; the first that is not well is the answer."""
        notes, counted = [], None
        parts = {name: self._part(name, action, stop) for name in action.step.regions}
        for name, part in list(parts.items()):
            result = self._patiently(part)
            if result.outcome == "failed" and action.phase in IN_ROUTING and part.replicas:
                _take_out(part, () if action.phase == "soak" else parts.values())
                result = Result("failed", f"{result.why}; taken out of routing")
            if result.outcome != "ok":
                return Result(result.outcome, f"{name}: {result.why}")
            notes += [f"{name}: {result.why}"] if result.why else []
            counted = result.seen
            del parts[name]
        return Result("ok", listed(notes), counted)

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

    def _preflight(self, part: Part) -> Result:
        """Refuse to take capacity away where little is left, or where somebody else works."""
        if wrong := part.region.wrong_cluster():
            return Result("inconclusive", wrong)
        waited = part.waiter.until(part.locked, LOCKED_S)
        if waited.how != "held":
            return unsure(waited)
        if part.forwards and (wrong := strewn(part)):
            return Result("inconclusive", wrong)
        by_hand = part.changed_by_hand(self.started.old, self.started.new)
        if by_hand and not part.action.overwrite:
            return Result("inconclusive", left_alone(named(by_hand)))
        whole = fronting_phases.missing(part) if part.shared and part.forwards else str
        waited = part.waiter.until(
            lambda: whole() or self._not_enough(part), self.started.deadlines.registered_s
        )
        if waited.how != "held":
            return unsure(waited)
        return Result("ok", named(by_hand), self._seen(part) if part.shared else None)

    def _seen(self, part: Part) -> Seen:
        """Count what frontends will have forgotten when their successors are judged."""
        reading = part.region.reading((), part.action.target, part.waiter.clock())
        return seen(reading.frontends.values())

    def _not_enough(self, part: Part) -> str:
        if missing := _weights_missing(part):
            return missing
        serving = part.region.serving()
        racks = part.region.racks
        parked = part.region.cluster.parked()
        if waiting := sorted(parked & set(part.replicas)):
            return (
                f"{listed(waiting)} is parked, its rack lacks nodes: k3fleet heal or racks uncordon"
            )
        absent = sorted(set(racks) - serving - set(part.replicas) - parked)
        if part.forwards and absent:
            return f"other replicas do not serve: {listed(absent)}"
        return floor_broken(serving, racks, part.replicas, self.started.floor)

    def _drain(self, part: Part) -> Result:
        """Take replicas away, if that is still possible: the preflight may be days old."""
        region = part.region
        floor = self.started.floor
        if low := floor_broken(region.serving(), region.racks, part.replicas, floor):
            return Result("inconclusive", low)
        return drain(part)

    def _assign(self, part: Part) -> Result:
        self.announce(part.region.stack.release(part.action.target))
        serial = part.action.serials.get(part.region.cluster.region, 0)
        written = dict.fromkeys(part.replicas, part.action.target)
        stack = part.region.stack
        shared = part.action.target if part.shared else stack.to_tell(self.started.old)
        stack.assign(written, serial=serial, shared=shared)
        return OK

    def _apply(self, part: Part) -> Result:
        """Let Pulumi do what is assigned, after a look at what it would do."""
        waited = part.waiter.until(part.locked, LOCKED_S)
        if waited.how != "held":
            return unsure(waited)
        by_hand = part.changed_by_hand(self.started.old, self.started.new)
        if by_hand and not part.action.overwrite:
            return Result("inconclusive", left_alone(named(by_hand)))
        stack, refresh, force = part.region.stack, part.action.refresh, part.action.overwrite
        with part.away():
            # A state that may be wrong, or a fight over fields, is for the engine to judge.
            only = None if refresh or force or part.shared else stack.own_targets(part.replicas)
            preview = None if only else stack.preview(refresh=refresh, force=force)
        if preview and (others := self._more(part, preview.touched)):
            return Result(
                "inconclusive",
                f"the update would also do this: {others}. Nothing was applied. See who changed "
                "these objects, undo it or apply it by hand, then resume",
            )
        part.hold()
        with part.away():
            stack.up(refresh=refresh, force=force, only=only or ())
        own = named({n: why for n, why in by_hand.items() if part.shared or n in part.replicas})
        return Result("ok", f"put back: {own}" if own else "")

    def _more(self, part: Part, touched: Iterable[Touched]) -> str:
        """Say what an update would do beside what its step is about."""
        if not part.shared:
            others = part.region.stack.sets(part.replicas)
            turn = SetsTurn.of(others, part.target_set, part.sets)
            return touches_others(touched, part.replicas, turn)
        both = (self.started.old, self.started.new)
        return touches_more(
            touched, {key for id_ in both for key in part.region.stack.fronting(id_)}
        )

    def _verify(self, part: Part) -> Result:
        """Compare what the cluster has with what the release renders to."""
        live, rendered = part.region.cluster.workloads(), part.region.stack.rendered()
        wrong = []
        for name in part.replicas:
            if name not in live:
                wrong.append(f"{name} is not there")
            elif why := differs(live[name], rendered[name]):
                wrong.append(f"{name}: {why}")
        if wrong:
            return Result("failed", f"the cluster has not what was applied: {listed(wrong)}")
        return OK

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


def _take_out(part: Part, unproved: Iterable[Part]) -> None:
    """Take what failed out of routing, and what the other regions have of the same step.

    Those were not looked at in this phase yet, and have the same release; where their API server
    is away they stay as they are.
    """
    retreat(part)
    part.route(on=False)
    for other in unproved:
        if other is not part:
            with suppress(ApplyError):
                retreat(other)
                other.route(on=False)


def _weights_missing(part: Part) -> str:
    """Say where weights are missing; they have to be whole before a replica is taken away."""
    wanted = part.region.stack.weights_labels(part.action.target)
    if not wanted:
        return ""
    cluster = part.region.cluster
    missing = weights_missing(cluster.engines(), cluster.node_labels(), part.replicas, wanted)
    return f"weights of {part.action.target} are not whole: {missing}" if missing else ""


def _absent(part: Part) -> str:
    serving = part.region.serving()
    return listed(f"{name} is not in routing" for name in part.replicas if name not in serving)
