"""Do the phases of a step in real regions, each so that it may be done again.

What to do next is decided in `fleet.rollout.state`, whether something is right in
`infra.rollout.checks`; here things are asked, touched and waited for. Every wait ends at the
strategy's deadline, and as soon as somebody asks to turn back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from fleet.release import Release
from fleet.rollout.record import Phase, Started
from fleet.rollout.state import Do
from fleet.rollout.strategy import Gates
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
from infra.rollout.judging import smoke, watched
from infra.rollout.part import Part, named
from infra.rollout.region import SiteRegion
from infra.rollout.sharing import come, retreat, strewn
from infra.rollout.verdicts import OK, left_alone, unsure, verdict
from infra.rollout.waiting import Waiter

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
            "drain": drain,
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

    def do(self, action: Do, stop: Callable[[], bool]) -> Result:
        """Do one phase in each region of the step; the first that is not well is the answer."""
        replicas: dict[str, list[str]] = defaultdict(list)
        for place in action.step.places:
            replicas[place.region].append(place.replica)
        notes = []
        for name, own in replicas.items():
            part = Part(
                region=self.regions[name],
                replicas=tuple(own),
                action=action,
                waiter=self.waiter(stop),
                forwards=action.target == self.started.new,
                require_held=self.require_held,
                sets=self._sets(self.regions[name]),
            )
            result = self._patiently(part)
            if result.outcome == "failed" and action.phase in IN_ROUTING:
                retreat(part)
                part.route(on=False)
                result = Result("failed", f"{result.why}; taken out of routing")
            if result.outcome != "ok":
                return Result(result.outcome, f"{name}: {result.why}")
            notes += [f"{name}: {result.why}"] if result.why else []
        return Result("ok", listed(notes))

    def _sets(self, region: SiteRegion) -> frozenset[str]:
        return frozenset(map(region.stack.set_of, (self.started.old, self.started.new)))

    def _patiently(self, part: Part) -> Result:
        """Do a phase, and do it again when an API server was away meanwhile and is back."""
        came: list[Result] = []

        def tried() -> str:
            try:
                self.require_held(part.region.cluster.region)
                came.append(self._phases[part.action.phase](part))
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
        waited = part.waiter.until(
            lambda: self._not_enough(part), self.started.deadlines.registered_s
        )
        return Result("ok", named(by_hand)) if waited.how == "held" else unsure(waited)

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

    def _assign(self, part: Part) -> Result:
        self.announce(part.region.stack.release(part.action.target))
        serial = part.action.serials.get(part.region.cluster.region, 0)
        written = dict.fromkeys(part.replicas, part.action.target)
        part.region.stack.assign(written, serial=serial)
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
            only = None if refresh or force else stack.own_targets(part.replicas)
            preview = None if only else stack.preview(refresh=refresh, force=force)
        turn = SetsTurn.of(stack.sets(part.replicas), part.target_set, part.sets)
        if preview and (others := touches_others(preview.touched, part.replicas, turn)):
            return Result(
                "inconclusive",
                f"the update would also do this: {others}. Nothing was applied. See who changed "
                "these objects, undo it or apply it by hand, then resume",
            )
        part.hold()
        with part.away():
            stack.up(refresh=refresh, force=force, only=only or ())
        own = named({name: by_hand[name] for name in part.replicas if name in by_hand})
        return Result("ok", f"put back: {own}" if own else "")

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

        def quiet() -> str:
            nonlocal lost
            lost = _absent(part)
            return "" if lost else "soaking"

        waited = part.waiter.until(quiet, part.action.step.soak_s)
        if waited.how == "stopped":
            return unsure(waited)
        return Result("failed", f"while it soaked: {lost}") if lost else OK


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
