"""Watch when the pods of replicas go and come, by what an API server says."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import httpx2
from lightkube.resources.core_v1 import Pod

from infra.rollout.checks import EnginePod
from infra.rollout.cluster import REPLICA_LABEL, Cluster, engine_pod

AGAIN_S = 0.5
WATCH_S = 3600


class Step(NamedTuple):
    """The moments of a step."""

    from_s: float
    gone_s: float
    up_s: float
    to_s: float

    @property
    def whole_s(self) -> float:
        """All of it."""
        return self.to_s - self.from_s

    @property
    def start_s(self) -> float:
        """How long the replica's pods took to be replaced."""
        return self.up_s - self.gone_s

    @property
    def beyond_s(self) -> float:
        """What the step took beside that."""
        return self.whole_s - self.start_s


@dataclass(slots=True)
class Life:
    """A pod, by the moments (Unix time) at which the API server first said so."""

    replica: str
    gone_s: float | None = None  # it has to go
    up_s: float | None = None  # a leader is Ready, another pod runs


@dataclass
class Lives:
    """The engines' pods of a region, watched."""

    cluster: Cluster
    pods: dict[str, Life] = field(default_factory=dict)

    def follow(self) -> None:
        """Watch until the API server is gone for good; the thread ends with the process."""
        while True:
            try:
                for operation, pod in self.cluster.client.watch(
                    Pod, labels={REPLICA_LABEL: None}, server_timeout=WATCH_S
                ):
                    self._take(engine_pod(pod.to_dict()), gone=operation == "DELETED")
            except (httpx2.HTTPError, OSError):
                time.sleep(AGAIN_S)

    def _take(self, pod: EnginePod, *, gone: bool) -> None:
        now_s = time.time()
        life = self.pods.setdefault(pod.uid, Life(pod.replica))
        if life.gone_s is None and (pod.deleting or gone):
            life.gone_s = now_s
        up = pod.ready if pod.leader else pod.phase == "Running"
        if life.up_s is None and up and not pod.deleting:
            life.up_s = now_s

    def step(self, replica: str, from_s: float, to_s: float) -> Step:
        """Say when a replica's pods went and came within a step."""
        own = [life for life in list(self.pods.values()) if life.replica == replica]
        gone_s = min(one.gone_s for one in own if one.gone_s and from_s <= one.gone_s <= to_s)
        up_s = max(one.up_s for one in own if one.up_s and gone_s <= one.up_s <= to_s)
        return Step(from_s, gone_s, up_s, to_s)
