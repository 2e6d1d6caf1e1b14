"""A region as a rollout sees it: its cluster, its stack, its frontends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from infra.engine import SYSTEM_PORT
from infra.frontend import PORT as FRONTEND_PORT
from infra.rollout import metrics
from infra.rollout.checks import Counts, EnginePod, listed
from infra.rollout.cluster import Cluster
from infra.rollout.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRegion:
    """Where a rollout works: one region."""

    cluster: Cluster
    stack: Stack
    racks: Mapping[str, str]  # every replica of the region -> its rack
    # Asks a worker for a chat through a frontend: (its URL, the worker's id).
    ask: Callable[[str, str], bool]

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

    def streams(self, replicas: Collection[str]) -> str:
        """Say on how many requests replicas still work; one that is not Ready has none to keep."""
        busy = []
        for pod in self.leaders():
            if pod.replica in replicas and pod.ready and pod.address:
                count = metrics.inflight(self.cluster.reach(pod.address), SYSTEM_PORT)
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
        frontends = self.cluster.frontends()
        if not frontends:
            return "no frontend is Ready"
        workers = self.cluster.workers()
        silent = []
        for pod in self.leaders():
            if pod.replica in replicas:
                worker = workers.get(pod.name)
                silent += [
                    f"{pod.replica} does not answer at frontend {address}"
                    for address in frontends
                    if worker is None or not self.ask(f"http://{address}:{FRONTEND_PORT}", worker)
                ]
        absent = set(replicas) - {pod.replica for pod in self.leaders()}
        return listed([*(f"{name} has no leader" for name in sorted(absent)), *silent])

    def counts(self) -> Mapping[str, Counts]:
        """Read what each frontend has counted; one that does not answer is left out."""
        found = {
            address: metrics.counts(address, FRONTEND_PORT) for address in self.cluster.frontends()
        }
        return {address: counts for address, counts in found.items() if counts is not None}
