"""A region as a rollout sees it: its cluster, its stack, its frontends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from fleet.release import Release
from fleet.release_set import release_set
from fleet.rollout.answers import Asked
from fleet.rollout.counters import Reading, ReplicaCounts
from infra.engine import SYSTEM_PORT
from infra.gateway import cluster_of
from infra.rollout import metrics
from infra.rollout.checks import EnginePod, listed
from infra.rollout.cluster import Cluster
from infra.rollout.endpoint import Endpoint
from infra.rollout.objects import ClusterObjects
from infra.rollout.stack import Stack
from infra.traffic import RegionTraffic

# Replicas of another release that the new ones are compared with: enough to be a fair sample, and
# few enough to be read every two seconds.
MOST_OTHERS = 16
MOST_AT_ONCE = 8
NO_FRONTEND = "no frontend is Ready"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """How a worker behind a frontend is asked."""

    # For a chat: (the frontend, the worker's id).
    ask: Callable[[Endpoint, str], bool]
    # For what has known answers: (the frontend, the worker's id, what it runs).
    probe: Callable[[Endpoint, str, Release], Asked]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRegion:
    """Where a rollout works: one region."""

    cluster: Cluster
    stack: Stack
    racks: Mapping[str, str]  # every replica of the region -> its rack
    questions: Questions

    def wrong_cluster(self) -> str:
        """Say whether the kubeconfig leads to a namespace of another fleet or region."""
        found = self.cluster.owner()
        wanted = (self.stack.fleet.spec.name, self.cluster.region)
        if found == wanted:
            return ""
        return (
            f"{self.cluster.kubeconfig}: namespace {self.cluster.namespace} belongs to fleet "
            f"{found[0] or '?'}, region {found[1] or '?'}. Correct the stack's kubeconfig"
        )

    def leaders(self) -> tuple[EnginePod, ...]:
        """List the leaders that are not about to go."""
        return tuple(p for p in self.cluster.engines() if p.leader and not p.deleting)

    def serving(self) -> frozenset[str]:
        """Name the replicas that frontends may choose: registered, and in the Service's slices."""
        routed, workers = self.cluster.in_routing(), self.cluster.workers()
        return frozenset(
            pod.replica
            for pod in self.leaders()
            if pod.ready and pod.name in routed and pod.name in workers
        )

    @property
    def traffic(self) -> RegionTraffic:
        """Where the sessions of the region's clients go."""
        return RegionTraffic(objects=ClusterObjects(self.cluster))

    def serving_sets(self, without: Collection[str] = ()) -> Mapping[str, int]:
        """Count the replicas that serve by their set's cluster at the gateway; leave some out."""
        serving = self.serving() - frozenset(without)
        return Counter(cluster_of(pod.set) for pod in self.leaders() if pod.replica in serving)

    def frontends_missing(self, set_: str) -> str:
        """Say whether some of a set's frontends are not Ready."""
        wanted = self.stack.fleet.spec.frontends.replicas
        found = len(self.cluster.frontends(set_))
        return "" if found >= wanted else f"{found} of {wanted} frontends of set {set_} are Ready"

    def streams(self, replicas: Collection[str]) -> str:
        """Say on how many requests replicas still work; one that is not Ready has none to keep."""
        busy = []
        for pod in self.leaders():
            if pod.replica in replicas and pod.ready and pod.address:
                count = metrics.inflight(self._page(pod))
                if count is None:
                    busy.append(f"{pod.replica} does not say what it works on")
                elif count:
                    busy.append(f"{pod.replica} works on {count} requests")
        return listed(busy)

    def drain_s(self, release: str) -> float:
        """Say how long streams of a release may take to end."""
        return self.stack.release(release).drain_s

    def silent(self, replicas: Collection[str]) -> str:
        """Say which replicas do not answer at which frontend."""
        workers = self.cluster.workers()
        silent = []
        for pod in self.leaders():
            if pod.replica in replicas:
                frontends = self.cluster.frontends(pod.set)
                if not frontends:
                    return NO_FRONTEND
                worker = workers.get(pod.name)
                silent += [
                    f"{pod.replica} does not answer at frontend {frontend.pod}"
                    for frontend in frontends
                    if worker is None or not self.questions.ask(frontend, worker)
                ]
        absent = set(replicas) - {pod.replica for pod in self.leaders()}
        return listed([*(f"{name} has no leader" for name in sorted(absent)), *silent])

    def probed(self, replicas: Collection[str], release: str) -> Asked:
        """Ask each replica what has known answers, through one frontend."""
        runs, workers = self.stack.release(release), self.cluster.workers()
        frontends = self.cluster.frontends(release_set(runs))
        if not frontends:
            return Asked(wrong=(NO_FRONTEND,))
        asked = Asked()
        for pod in self.leaders():
            if pod.replica in replicas and pod.name in workers:
                found = self.questions.probe(frontends[0], workers[pod.name], runs)
                asked = asked.plus(_of(pod.replica, found))
        return asked

    def probed_through_all(self, replicas: Collection[str]) -> Asked:
        """Ask what has known answers through each frontend, of one replica after the other."""
        workers = self.cluster.workers()
        leaders = [p for p in self.leaders() if p.replica in replicas and p.name in workers]
        asked = Asked() if leaders else Asked(wrong=("no replica has registered",))
        for set_ in sorted({pod.set for pod in leaders}):
            own = [pod for pod in leaders if pod.set == set_]
            for index, frontend in enumerate(self.cluster.frontends(set_)):
                pod = own[index % len(own)]
                runs = self.stack.release(pod.release)
                found = self.questions.probe(frontend, workers[pod.name], runs)
                asked = asked.plus(_of(f"frontend {frontend.pod}", found))
        return asked

    def witnesses(self) -> tuple[str, ...]:
        """Name replicas that serve, from all over the region, to be asked behind new frontends."""
        serving = self.serving()
        found = [pod for pod in self.leaders() if pod.replica in serving]
        return tuple(pod.replica for pod in evenly(found, MOST_OTHERS))

    def reading(self, step: Collection[str], release: str, at_s: float) -> Reading:
        """Read the counters of the frontends, of the step's replicas, and of some of the others.

        What does not answer is left out.
        """
        leaders = [pod for pod in self.leaders() if pod.ready and pod.address]
        new = [pod for pod in leaders if pod.replica in step]
        others = [pod for pod in leaders if pod.release != release and pod not in new]
        frontends = self.cluster.frontends()
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            counts = pool.map(metrics.counts, frontends)
            ours = pool.map(self._counted, new)
            theirs = pool.map(self._counted, some := evenly(others, MOST_OTHERS))
            return Reading(
                at_s=at_s,
                frontends=_known([at.url for at in frontends], counts),
                new=_known([pod.uid for pod in new], ours),
                old=_known([pod.uid for pod in some], theirs),
            )

    def _counted(self, pod: EnginePod) -> ReplicaCounts | None:
        return metrics.replica_counts(self._page(pod))

    def _page(self, pod: EnginePod) -> Endpoint:
        return self.cluster.endpoint(pod.name, pod.address or "", SYSTEM_PORT)


def evenly(pods: Sequence[EnginePod], most: int) -> list[EnginePod]:
    """Take so many of the replicas, from all over the region, and always the same."""
    ordered = sorted(pods, key=lambda pod: pod.replica)
    count = min(most, len(ordered))
    return [ordered[index * len(ordered) // count] for index in range(count)]


def _known(names: Iterable[str], found: Iterable[_T | None]) -> dict[str, _T]:
    return {name: one for name, one in zip(names, found, strict=True) if one is not None}


def _of(replica: str, asked: Asked) -> Asked:
    def named(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{replica}: {text}" for text in texts)

    return replace(
        asked, leaks=named(asked.leaks), empties=named(asked.empties), wrong=named(asked.wrong)
    )
