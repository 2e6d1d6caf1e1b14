"""Take nodes out of work and bring them back, by the rules of a rollout.

Nothing is remembered but what the cluster shows: cordons, labels of routing, parked replicas.
Every look plans anew, so a killed drain goes on with the same command, and `uncordon` undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from fleet.errors import ApplyError, CapacityError, ConfigError
from fleet.racks.moves import (
    Move,
    Settled,
    ailing,
    leaving,
    returning,
    settle,
    silent,
    usable_nodes,
)
from fleet.racks.seen import NodeSeen, RackSeen
from fleet.rollout.record import Place, RecordedStep
from fleet.rollout.state import Do
from fleet.rollout.strategy import Deadlines, Floor
from infra.racks import touch
from infra.racks.reader import read_racks
from infra.rollout.checks import EnginePod, floor_broken, listed
from infra.rollout.draining import drain as drain_part
from infra.rollout.part import Part
from infra.rollout.region import SiteRegion
from infra.rollout.waiting import Waiter

GONE_S = 1200.0  # for pods to end: their grace is the drain budget, 15 minutes and more


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a drain would do, or still has to."""

    rack: RackSeen
    nodes: frozenset[str]
    settled: Settled
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RackWork:
    """One rack, and by which rules it is touched."""

    region: SiteRegion
    rack: str
    gpus: int  # per node
    nodes_per_replica: int
    floor: Floor
    deadlines: Deadlines
    waiter: Waiter
    by: str  # who, for whoever finds the cordon
    say: Callable[[str], None]
    require_held: Callable[[str], None] = lambda _region: None

    def read(self) -> RackSeen:
        """Read the rack; raise ConfigError where no node carries its label."""
        found = read_racks(self.region.cluster).rack(self.rack)
        if found is None or not found.nodes:
            raise ConfigError(
                f"rack {self.rack}: no node carries its label. Write it: k3fleet racks label."
            )
        return found

    def plan(self, nodes: Collection[str]) -> Planned:
        """Say what taking nodes out of work means for the replicas of the rack."""
        rack = self.read()
        homes = rack.homes()
        settled = settle(
            usable_nodes(rack, self.gpus, nodes),
            homes,
            nodes_per_replica=self.nodes_per_replica,
            parked=rack.parked,
        )
        moves = leaving(settled, homes, nodes, rack.parked)
        return Planned(rack=rack, nodes=frozenset(nodes), settled=settled, moves=moves)

    def require_possible(self, planned: Planned) -> None:
        """Raise before anything is touched: CapacityError where too little would serve.

        ConfigError where nobody knows a release, and so how long its streams may take.
        """
        leaving_now = {move.replica for move in planned.moves}
        for release in {s.release for s in planned.rack.seats if s.replica in leaving_now}:
            self.region.drain_s(release)
        drops = [move.replica for move in planned.moves if move.how == "drop"]
        steps = [[*drops, move.replica] for move in planned.moves if move.how == "move"]
        for step in steps or [drops]:
            if fault := self._floor_fault(step):
                raise CapacityError(
                    f"rack {self.rack}: {fault}. Drain fewer nodes at a time, bring replicas "
                    "back first, or give a --strategy with another floor."
                )

    def cordon(self, nodes: Collection[str]) -> None:
        """Let no more pods onto nodes."""
        for node in self._nodes(self.read(), nodes):
            self._hold()
            touch.cordon(self.region.cluster, node, self.by)

    def drain(self, nodes: Collection[str]) -> None:
        """Move replicas off nodes, one after the other, those without a place first."""
        self.cordon(nodes)
        done: set[Move] = set()
        while moves := self.plan(nodes).moves:
            move = moves[0]
            if move in done:
                raise ApplyError(
                    f"{move.replica}: is on a drained node again. See who else works on rack "
                    f"{self.rack}, then drain again."
                )
            self._leave(move, nodes)
            done.add(move)
        self._require(lambda: self._still_on(nodes), GONE_S, "nodes are not free")

    def uncordon(self, nodes: Collection[str]) -> tuple[str, ...]:
        """Let pods onto nodes again, and bring back what there is room for; name it."""
        for node in self._nodes(self.read(), nodes):
            self._hold()
            touch.uncordon(self.region.cluster, node)
        return self.bring_back()

    def bring_back(self) -> tuple[str, ...]:
        """Bring parked replicas back for which there is room; name them."""
        planned = self.plan(())
        back = returning(planned.settled, planned.rack.parked)
        for replica in back:
            self.say(f"{replica}: has its pods again")
            self._hold()
            touch.unpark(self.region.cluster, replica)
        whole = [name for name in planned.settled.stay if name in self.region.racks]
        if whole:  # a killed drain may have taken some out of routing
            self._part(tuple(whole)).route(on=True)
        return back

    def heal(self) -> tuple[str, ...]:
        """Take replicas off nodes that are ill, and bring back what there is room for; name it."""
        if nodes := ailing(self.read(), self.gpus):
            self.drain(nodes)
        return self.bring_back()

    def wait_serving(self, replicas: Collection[str]) -> None:
        """Wait until frontends may choose replicas."""
        timeout_s = self.deadlines.ready_s + self.deadlines.registered_s
        self._require(lambda: self._absent(replicas), timeout_s, "replicas do not serve")

    def _leave(self, move: Move, nodes: Collection[str]) -> None:
        self._require(
            lambda: self._floor_fault([move.replica]),
            self.deadlines.registered_s,
            "too little would serve",
        )
        part = self._part((move.replica,))
        self.say(f"{move.replica}: out of routing, its streams end")
        result = drain_part(part)
        if result.outcome != "ok":
            raise ApplyError(f"{move.replica}: {result.why}. Drain again.")
        if result.why:
            self.say(f"{move.replica}: {result.why}")
        self._hold()
        if move.how == "drop":
            self.say(f"{move.replica}: there is no room for it, parked")
            touch.park(self.region.cluster, move.replica, self.by)
            self._require(lambda: self._pods_of(move.replica), GONE_S, "its pods do not end")
            return
        self.say(f"{move.replica}: moves")
        self._require(lambda: self._evicted(move.replica, nodes), GONE_S, "it does not go")
        self.wait_serving([move.replica])
        self.say(f"{move.replica}: serves again")

    def _evicted(self, replica: str, nodes: Collection[str]) -> str:
        """Evict what a replica has, leader first, while any of it is on a drained node."""
        pods = [pod for pod in self.region.cluster.engines() if pod.replica == replica]
        if not any(pod.node in nodes for pod in pods):
            return ""
        self._bury(pods)
        stuck = []
        for pod in sorted(pods, key=lambda pod: not pod.leader):
            if not pod.deleting:
                self._hold()
                stuck.append(touch.evict(self.region.cluster, pod.name))
        return listed(filter(None, stuck)) or f"{replica} ends"

    def _still_on(self, nodes: Collection[str]) -> str:
        engines = self.region.cluster.engines()
        return listed(f"{pod.name} is on {pod.node}" for pod in engines if pod.node in nodes)

    def _pods_of(self, replica: str) -> str:
        pods = [pod for pod in self.region.cluster.engines() if pod.replica == replica]
        self._bury(pods)
        return listed(f"{pod.name} is still there" for pod in pods)

    def _bury(self, pods: Collection[EnginePod]) -> None:
        """Remove pods that were told to go, and whose node is silent: nobody else would."""
        ending = [pod for pod in pods if pod.deleting]
        if not ending:
            return
        rack = self.read()
        for pod in ending:
            if silent(rack, pod.node):
                self.say(f"{pod.name}: removed, {pod.node or 'its node'} is silent")
                self._hold()
                touch.bury(self.region.cluster, pod.name)

    def _absent(self, replicas: Collection[str]) -> str:
        serving = self.region.serving()
        return listed(f"{name} does not serve" for name in replicas if name not in serving)

    def _floor_fault(self, replicas: Collection[str]) -> str:
        known = [name for name in replicas if name in self.region.racks]
        return floor_broken(self.region.serving(), self.region.racks, known, self.floor)

    def _nodes(self, rack: RackSeen, names: Collection[str]) -> list[NodeSeen]:
        return [node for node in rack.nodes if node.name in names]

    def _hold(self) -> None:
        self.require_held(self.region.cluster.region)

    def _require(self, missing: Callable[[], str], timeout_s: float, what: str) -> None:
        waited = self.waiter.until(missing, timeout_s)
        if waited.how != "held":
            raise ApplyError(
                f"rack {self.rack}: {what} after {timeout_s:.0f} s: {waited.missing}. "
                "See to it, then give the same command again."
            )

    def _part(self, replicas: tuple[str, ...]) -> Part:
        cluster = self.region.cluster
        places = tuple(
            Place(replica=name, rack=self.rack, region=cluster.region) for name in replicas
        )
        step = RecordedStep(wave="drain", places=places)
        return Part(
            region=self.region,
            replicas=replicas,
            action=Do(step=step, phase="drain", target="", refresh=False),
            waiter=self.waiter,
            require_held=self.require_held,
        )
