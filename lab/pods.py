"""Read pods as the lab needs them, and follow a namespace's pods in a live store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from lightkube import Client
from lightkube.resources.core_v1 import Pod

from lab.api import plain
from lab.log import log

WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
REPLICA_LABEL = "k3fleet.io/replica"
LWS_NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
RELIST_PAUSE_S = 0.5
WATCH_TIMEOUT_S = 300
DEFAULT_FAILURE_THRESHOLD = 3  # Kubernetes' own default
DEFAULT_GRACE_S = 30  # Kubernetes' own default of terminationGracePeriodSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """The part of a pod that the lab looks at; `spec` is the raw pod spec."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_uid: str | None
    node: str | None
    phase: str
    ready: bool
    address: str | None
    restarts: int
    deleting: bool
    grace_s: float
    spec: Mapping[str, Any]

    @property
    def container(self) -> Mapping[str, Any]:
        """The pod's main container: the lab runs one process per pod."""
        main: Mapping[str, Any] = self.spec["containers"][0]
        return main

    @property
    def pre_stop_s(self) -> float:
        """Seconds that the container's preStop hook sleeps before the process is told to end."""
        hook = self.container.get("lifecycle", {}).get("preStop", {})
        return float(hook.get("sleep", {}).get("seconds", 0))

    @property
    def failure_threshold(self) -> int:
        """How many probes in a row must fail before the pod is no longer ready."""
        probe = self.container.get("readinessProbe", {})
        return int(probe.get("failureThreshold", DEFAULT_FAILURE_THRESHOLD))

    @property
    def is_leader(self) -> bool:
        """Whether this is the leader of a replica's two pods."""
        return self.labels.get(WORKER_INDEX_LABEL) == "0"

    @property
    def is_worker(self) -> bool:
        """Whether this is the second pod of a replica."""
        return self.labels.get(WORKER_INDEX_LABEL, "0") != "0"


def view(pod: Pod) -> PodView:
    """Reduce an API object to what the lab looks at."""
    raw = plain(pod)
    meta, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
    owners = meta.get("ownerReferences") or [{}]
    return PodView(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        owner_uid=owners[0].get("uid"),
        node=spec.get("nodeName"),
        phase=status.get("phase", "Pending"),
        ready=conditions.get("Ready") == "True",
        address=status.get("podIP"),
        restarts=sum(c.get("restartCount", 0) for c in status.get("containerStatuses", ())),
        deleting="deletionTimestamp" in meta,
        grace_s=float(meta.get("deletionGracePeriodSeconds") or DEFAULT_GRACE_S),
        spec=spec,
    )


Listener = Callable[[PodView, bool], None]


class PodStore:
    """A live copy of one namespace's pods; listeners hear (pod, gone) for every change."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._pods: dict[str, PodView] = {}
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Call the listener for every later change, from the watching thread."""
        self._listeners.append(listener)

    def get(self, name: str) -> PodView | None:
        """Return a pod by name."""
        with self._lock:
            return self._pods.get(name)

    def all(self) -> tuple[PodView, ...]:
        """Return all pods of the namespace."""
        with self._lock:
            return tuple(self._pods.values())

    def follow(self, stop: threading.Event) -> None:
        """Watch until told to stop; after an error list again, so that no deletion is missed."""
        while not stop.is_set():
            try:
                self._relist()
                for operation, pod in self._client.watch(
                    Pod, namespace=self._namespace, server_timeout=WATCH_TIMEOUT_S
                ):
                    self._take(view(pod), gone=operation == "DELETED")
                    if stop.is_set():
                        return
            except (httpx2.HTTPError, OSError) as error:
                log(f"pods: watch ended: {error}")
            stop.wait(RELIST_PAUSE_S)

    def _relist(self) -> None:
        present = {p.uid: p for p in map(view, self._client.list(Pod, namespace=self._namespace))}
        for known in self.all():
            if known.uid not in present:
                self._take(known, gone=True)

    def _take(self, pod: PodView, *, gone: bool) -> None:
        with self._lock:
            known = self._pods.get(pod.name)
            if gone and known is not None and known.uid == pod.uid:
                del self._pods[pod.name]
            elif not gone:
                self._pods[pod.name] = pod
        for listener in self._listeners:
            listener(pod, gone)
