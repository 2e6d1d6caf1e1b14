"""Ask a region who serves in it: its API server, and through its gateway the replicas themselves.

Works for a lab that this process runs and for one that another command left up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightkube import Client
from lightkube.resources.core_v1 import Pod

from fleet.release import Role
from infra.rollout.cluster import WorkerMetadata, worker_ids
from lab.api import plain
from lab.network import loopback_address
from lab.pods import REPLICA_LABEL, PodView, view
from verify.smoke import serves, worker_answers

NAME_LABEL = "app.kubernetes.io/name"
FRONTEND_PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionReach:
    """How the replicas of a region are reached; httpx2.HTTPError means that one did not answer."""

    client: Client
    namespace: str
    gateway_url: str
    roles: Mapping[str, Role]  # by replica
    engine_port: int | None  # where the gateway asks engines, when there are no frontends

    def pods(self) -> tuple[PodView, ...]:
        """Read all pods of the region's namespace."""
        return tuple(view(pod) for pod in self.client.list(Pod, namespace=self.namespace))

    def registered(self) -> Mapping[str, str]:
        """Map the router's worker ids to replicas, for leaders that are registered and ready.

        Without a router those count whose address the gateway is given, by the pod's name.
        """
        replicas = {name: pod.labels[REPLICA_LABEL] for name, pod in self._leaders().items()}
        if self.engine_port is not None:
            return replicas
        found: dict[str, str] = {}
        for item in map(plain, self.client.list(WorkerMetadata)):
            replica = replicas.get(item["metadata"]["name"])
            if replica is not None and item["spec"]["data"].get("model_cards"):
                found.update(dict.fromkeys(worker_ids(item["spec"]["data"]), replica))
        return found

    def metrics_pages(self) -> tuple[str, ...]:
        """Name the pages where the frontends that are ready tell their counters."""
        found = (
            loopback_address(pod.address)
            for pod in self.pods()
            if pod.labels.get(NAME_LABEL) == "frontend" and pod.ready and pod.address
        )
        return tuple(sorted(f"http://{address}:{FRONTEND_PORT}/metrics" for address in found))

    def answering(self, model: str, *, beside: set[str]) -> frozenset[str]:
        """Ask each replica but some for a chat, past the router's choice; name those that answer.

        One that only prefills needs one that decodes, and the reverse.
        """
        if self.engine_port is not None:
            return self._answering_directly(self.engine_port, model)
        workers = self.registered()
        partners = {self.roles[name]: worker for worker, name in workers.items()}
        found = set()
        for worker, name in workers.items():
            if name in beside:
                continue
            pair = {**partners, self.roles[name]: worker}
            decode = pair.get("decode", worker)
            if worker_answers(self.gateway_url, model, decode, pair.get("prefill")):
                found.add(name)
        return frozenset(found)

    def _answering_directly(self, port: int, model: str) -> frozenset[str]:
        return frozenset(
            pod.labels[REPLICA_LABEL]
            for pod in self._leaders().values()
            if pod.address and serves(f"http://{loopback_address(pod.address)}:{port}", model)
        )

    def _leaders(self) -> dict[str, PodView]:
        """Return the leaders that are ready, by name."""
        return {
            pod.name: pod
            for pod in self.pods()
            if pod.is_leader and pod.ready and REPLICA_LABEL in pod.labels
        }
