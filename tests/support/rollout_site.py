"""A region that a test owns: its pods, its stack, its frontends, and its time."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rollout_objects import FakeObjects

from fleet.errors import ApplyError, BusyError
from fleet.load import Fleet
from fleet.release import Release
from fleet.release_set import release_set
from fleet.rollout.answers import Asked
from fleet.rollout.counters import Counts, Reading, ReplicaCounts
from fleet.rollout.record import Phase, Place, RecordedStep, Seen, Started
from fleet.rollout.state import Do
from infra.gateway import SETS_ANNOTATION, SETS_MAP, cluster_of
from infra.options import Options
from infra.render import render_region
from infra.rollout.checks import EnginePod
from infra.rollout.cluster import AwayError
from infra.rollout.driver import Result
from infra.rollout.endpoint import Endpoint
from infra.rollout.site import RegionsSite
from infra.rollout.stack import FRONTING, NAME_LABEL
from infra.rollout.waiting import Waiter
from infra.stack_events import Touched
from infra.traffic import RegionTraffic

REGION, RACK = "us-east", "use1-r01"
REPLICAS = [f"{RACK}-{slot}" for slot in range(3)]
FIRST = REPLICAS[0]
DRAIN_S = 40.0


def pods_of(replica: str, release: str) -> list[EnginePod]:
    """Give leader and second pod, as they are when all is well."""
    leader = EnginePod(
        name=f"{replica}-0",
        uid=f"{replica}-{release}",
        replica=replica,
        rack=RACK,
        release=release,
        leader=True,
        phase="Running",
        ready=True,
        deleting=False,
        routed=True,
        address="10.0.0.1",
        node=f"node-{replica}-a",
    )
    second = replace(leader, name=f"{replica}-0-1", leader=False, node=f"node-{replica}-b")
    return [leader, second]


@dataclass
class FakeStack:
    """What is assigned, and what Pulumi would do."""

    fleet: Fleet
    new: tuple[str, Release]
    lock: str = ""
    touched: tuple[Touched, ...] = ()
    done: list[str] = field(default_factory=list)
    assigned: dict[str, str] = field(default_factory=dict)
    serial: int = 0
    shared: str | None = None
    telling: str | None = None  # what frontends have to be told to follow
    fails: list[str] = field(default_factory=list)  # what the next updates say
    weights: dict[str, str] = field(default_factory=dict)  # labels of nodes that hold them
    _fronting: dict[Any, Any] = field(default_factory=dict)  # rendering takes a while
    only: tuple[str, ...] | None = None  # what the state says that an update touches

    def check_unlocked(self) -> None:
        if self.lock:
            raise ApplyError(self.lock)

    def assign(
        self, replicas: Mapping[str, str], *, serial: int, shared: str | None = None
    ) -> None:
        self.assigned.update(replicas)
        self.shared = shared or self.shared
        self.serial = serial

    def to_tell(self, _old: str) -> str | None:
        return self.telling

    def preview(self, *, refresh: bool, force: bool) -> FakeStack:
        self.done.append(f"preview {refresh}{' force' if force else ''}")
        return self

    def own_targets(self, step: Collection[str]) -> tuple[str, ...] | None:
        return self.only

    def up(self, *, refresh: bool, force: bool, only: Collection[str] = ()) -> None:
        told = f"{' force' if force else ''}{' only ' if only else ''}{', '.join(only)}"
        self.done.append(f"up {refresh}{told}")
        if self.fails:
            raise ApplyError(self.fails.pop())

    def fronting(self, instead: str | None = None) -> dict[tuple[str, str], dict[str, Any]]:
        shared = instead or self.shared
        key = (self.new[0], shared, tuple(self.assigned.items()))
        if key not in self._fronting:
            options = Options(assignment=self.assigned, releases=dict([self.new]), shared=shared)
            self._fronting[key] = {
                (item["kind"], item["metadata"]["name"]): item
                for item in render_region(self.fleet, REGION, "serving", options)
                if item["metadata"].get("labels", {}).get(NAME_LABEL) in FRONTING
            }
        return copy.deepcopy(self._fronting[key])

    def weights_labels(self, identity: str) -> Mapping[str, str]:
        return self.weights

    def release(self, identity: str) -> Release:
        return dict([self.new, (self.fleet.release_id, self.fleet.release)])[identity]

    def set_of(self, identity: str) -> str:
        return release_set(self.release(identity))

    def sets(self, without: Collection[str]) -> frozenset[str]:
        names = set(REPLICAS) - set(without)
        return frozenset(self.set_of(self.assigned.get(n, self.fleet.release_id)) for n in names)

    def rendered(self, instead: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
        assigned = {**self.assigned, **(instead or {})}
        options = Options(assignment=assigned, releases=dict([self.new]))
        return {
            item["metadata"]["name"]: item
            for item in render_region(self.fleet, REGION, "serving", options)
            if item["kind"] == "LeaderWorkerSet"
        }


@dataclass
class FakeRegion:
    """A region; `later` is what happens in it, by second."""

    stack: FakeStack
    pods: list[EnginePod]
    racks: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(REPLICAS, RACK))
    foreign: str = ""
    unregistered: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    working: dict[str, int] = field(default_factory=dict)
    counted: Counts = field(default_factory=Counts)
    live: dict[str, Any] = field(default_factory=dict)
    away: bool = False  # its API server does not answer
    answers: list[Asked] = field(default_factory=lambda: [Asked(answers=5)])  # the last stays
    probes: int = 0
    readings: int = 0
    new: dict[str, ReplicaCounts] = field(default_factory=dict)
    old: dict[str, ReplicaCounts] = field(default_factory=dict)
    card: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by replica
    nodes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    out_of_work: set[str] = field(default_factory=set)
    stuck: bool = False  # labels have no effect on routing
    deployed: dict[str, dict[str, Any]] = field(default_factory=dict)  # Deployments, by name
    fronts: list[Endpoint] = field(default_factory=list)
    objects: FakeObjects = field(default_factory=FakeObjects)
    heard_s: float = 0.0  # until gateways see what is written
    frontends_wanting: str = ""

    @property
    def cluster(self) -> FakeRegion:
        return self

    @property
    def region(self) -> str:
        return REGION

    def know(self, *clusters: str) -> None:
        """Let the gateways have frontends of some sets."""
        metadata = {"name": SETS_MAP, "annotations": {SETS_ANNOTATION: " ".join(clusters)}}
        item = self.objects.get("ConfigMap", SETS_MAP) or {"metadata": {}}
        metadata = {**item["metadata"], **metadata}
        self.objects.write("ConfigMap", {"kind": "ConfigMap", "metadata": metadata})

    @property
    def traffic(self) -> RegionTraffic:
        return RegionTraffic(objects=self.objects)

    def serving_sets(self, without: Collection[str] = ()) -> Mapping[str, int]:
        serving = self.serving() - set(without)
        return Counter(cluster_of(pod.set) for pod in self.leaders() if pod.replica in serving)

    def frontends_missing(self, _set: str) -> str:
        return self.frontends_wanting

    def wrong_cluster(self) -> str:
        self.owner()
        return self.foreign

    def owner(self) -> tuple[str, str]:
        if self.away:
            raise AwayError(f"{REGION}: its API server does not answer.")
        return "fleet", REGION

    def engines(self) -> tuple[EnginePod, ...]:
        self.owner()
        return tuple(self.pods)

    def leaders(self) -> tuple[EnginePod, ...]:
        self.owner()
        return tuple(pod for pod in self.pods if pod.leader and not pod.deleting)

    def in_routing(self) -> frozenset[str]:
        return frozenset(p.name for p in self.leaders() if p.ready and (p.routed or self.stuck))

    def serving(self) -> frozenset[str]:
        routed = self.in_routing()
        names = {pod.replica for pod in self.leaders() if pod.name in routed}
        return frozenset(names - self.unregistered)

    def route(self, pod: EnginePod, *, on: bool) -> None:
        self.pods[self.pods.index(pod)] = replace(pod, routed=on)

    def workloads(self) -> dict[str, dict[str, Any]]:
        self.owner()
        return copy.deepcopy(self.live)

    def streams(self, replicas: Collection[str]) -> str:
        busy = [name for name in replicas if self.working.get(name)]
        return f"{busy[0]} works on {self.working[busy[0]]} requests" if busy else ""

    def drain_s(self, release: str) -> float:
        return self.stack.release(release).drain_s

    def silent(self, replicas: Collection[str]) -> str:
        self.owner()
        return ", ".join(f"{name} does not answer" for name in replicas if name in self.mute)

    def probed(self, replicas: Collection[str], release: str) -> Asked:
        self.probes += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def reading(self, step: Collection[str], release: str, at_s: float) -> Reading:
        self.owner()
        self.readings += 1
        return Reading(
            at_s=at_s, frontends={"frontend": self.counted}, new=dict(self.new), old=dict(self.old)
        )

    def cards(self) -> Mapping[str, Mapping[str, Any]]:
        return {pod.name: self.card.get(pod.replica, {"size": 1}) for pod in self.leaders()}

    def deployments(self) -> dict[str, dict[str, Any]]:
        self.owner()
        return copy.deepcopy(self.deployed)

    def frontends(self) -> tuple[Endpoint, ...]:
        return tuple(self.fronts)

    def witnesses(self) -> tuple[str, ...]:
        return tuple(sorted(self.serving()))

    def probed_through_all(self, replicas: Collection[str]) -> Asked:
        return self.probed(replicas, "")

    def parked(self) -> frozenset[str]:
        return frozenset(self.out_of_work)

    def node_labels(self) -> Mapping[str, Mapping[str, str]]:
        return self.nodes


@dataclass
class Rig:
    """A site over one fake region, whose time is ours."""

    region: FakeRegion
    started: Started
    now_s: float = 0.0
    later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    stopping: bool = False
    announced: list[Release] = field(default_factory=list)
    lost: str = ""  # what whoever wants to touch something is told
    overwrite: bool = False
    counted_before: Seen | None = None
    said: list[str] = field(default_factory=list)

    def require_held(self, _region: str) -> None:
        if self.lost:
            raise BusyError(self.lost)

    def do(
        self, phase: Phase, *, back: bool = False, soak_s: float = 0.0, shared: bool = False
    ) -> Result:
        """Do one phase of a step of the first replica, or of what the region shares."""
        places = (Place(replica=FIRST, rack=RACK, region=REGION),)
        step = RecordedStep(
            wave="canary",
            soak_s=soak_s,
            places=() if shared else places,
            shared=REGION if shared else None,
        )
        target = self.started.old if back else self.started.new
        site = RegionsSite(
            started=self.started,
            regions={REGION: self.region},  # type: ignore[dict-item]
            waiter=lambda stop: Waiter(clock=lambda: self.now_s, pause=self._pause, stop=stop),
            announce=self.announced.append,
            say=self.said.append,
            require_held=self.require_held,
        )
        action = Do(
            step=step,
            phase=phase,
            target=target,
            refresh=back,
            serials={REGION: 7},
            overwrite=self.overwrite or back,
            seen=self.counted_before,
        )
        return site.do(action, lambda: self.stopping)

    def at(self, seconds: float, happens: Callable[[], object]) -> None:
        self.later.append((seconds, happens))

    def _pause(self, seconds: float) -> None:
        self.now_s += seconds
        for item in [item for item in self.later if item[0] <= self.now_s]:
            self.later.remove(item)
            item[1]()


def leader(rig: Rig, replica: str = FIRST) -> int:
    return [pod.name for pod in rig.region.pods].index(f"{replica}-0")


def change(rig: Rig, replica: str = FIRST, **changes: object) -> None:
    index = leader(rig, replica)
    rig.region.pods[index] = replace(rig.region.pods[index], **changes)  # type: ignore[arg-type]


def roll(rig: Rig, release: str) -> None:
    """Make the first replica's pods anew, as the cluster does after an update."""
    rig.region.pods[0:2] = pods_of(FIRST, release)
