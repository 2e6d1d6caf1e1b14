"""Stand in for the LeaderWorkerSet controller, which cannot be had as a package.

A test double, written from the documented behaviour, for `replicas: 1` and `size: 2` only, which
is all that k3fleet renders: a leader StatefulSet of one pod, and a worker StatefulSet owned by
the leader pod. Both are real StatefulSets, so the real controllers make, roll and collect the
pods. When a pod of the group is lost or its container restarts, the whole group is made anew
(RecreateGroupOnPodRestart), like upstream.
"""

from __future__ import annotations

import queue
import threading
from datetime import UTC, datetime
from http import HTTPStatus

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import Pod
from lightkube.types import CascadeType, PatchType

from lab.api import plain, typed
from lab.log import log
from lab.lws_templates import GROUP, REVISION_LABEL, Object, digest, leader_set, worker_set
from lab.pods import LWS_NAME_LABEL, PodStore, PodView

FIELD_MANAGER = "lws-double"
RESYNC_S = 1.0

LeaderWorkerSet = create_namespaced_resource(GROUP, "v1", "LeaderWorkerSet", "leaderworkersets")


class LwsDouble:
    """Reconciles the LeaderWorkerSets of one namespace until stopped."""

    def __init__(self, client: Client, namespace: str, pods: PodStore) -> None:
        self._client = client
        self._namespace = namespace
        self._pods = pods
        self._sets: dict[str, Object] = {}
        self._settled: set[str] = set()
        self._workers_seen: dict[str, str] = {}  # worker StatefulSet uid → its first pod's uid
        self._work: queue.Queue[str] = queue.Queue()
        pods.subscribe(self._on_pod)

    def follow(self, stop: threading.Event) -> None:
        """Watch the LeaderWorkerSets until told to stop."""
        while not stop.is_set():
            try:
                for operation, lws in self._client.watch(
                    LeaderWorkerSet, namespace=self._namespace, server_timeout=300
                ):
                    self._on_set(plain(lws), gone=operation == "DELETED")
                    if stop.is_set():
                        return
            except (httpx2.HTTPError, OSError) as error:
                log(f"lws: watch ended: {error}")
            stop.wait(RESYNC_S)

    def run(self, stop: threading.Event) -> None:
        """Reconcile what changed; look again every second at what has not settled."""
        while not stop.is_set():
            try:
                names = {self._work.get(timeout=RESYNC_S)}
                while not self._work.empty():
                    names.add(self._work.get_nowait())
            except queue.Empty:
                names = set(self._sets) - self._settled
            for name in sorted(names):
                self._try_reconcile(name)

    def _on_pod(self, pod: PodView, gone: bool) -> None:
        name = pod.labels.get(LWS_NAME_LABEL)
        if name is not None:
            self._settled.discard(name)
            self._work.put(name)

    def _on_set(self, lws: Object, *, gone: bool) -> None:
        name = lws["metadata"]["name"]
        if gone:
            self._sets.pop(name, None)
            return
        self._sets[name] = lws
        self._settled.discard(name)
        self._work.put(name)

    def _try_reconcile(self, name: str) -> None:
        lws = self._sets.get(name)
        if lws is None or "deletionTimestamp" in lws["metadata"]:
            return
        try:
            if self.reconcile(lws):
                self._settled.add(name)
        except (httpx2.HTTPError, OSError) as error:
            log(f"lws {name}: {error}")  # looked at again in a second

    def reconcile(self, lws: Object) -> bool:
        """Bring one group closer to what is asked; tell whether it is there."""
        name = lws["metadata"]["name"]
        revision = digest(lws["spec"]["leaderWorkerTemplate"])
        self._client.apply(
            typed(StatefulSet, leader_set(lws, revision)),
            field_manager=FIELD_MANAGER,
            force=True,
        )
        leader = self._pods.get(f"{name}-0")
        worker = self._pods.get(f"{name}-0-1")
        if leader is not None and not leader.deleting:
            workers = self._worker_set(leader.name)
            if workers is None:
                self._create_workers(lws, leader)
            elif self._group_broken(leader, worker, workers):
                log(f"lws {name}: a pod was lost or restarted, making the group anew")
                self._client.delete(
                    Pod, leader.name, namespace=self._namespace, cascade=CascadeType.BACKGROUND
                )
                return False
        ready = _current(leader, revision) and _current(worker, revision)
        self._write_status(lws, ready=ready, updated=_labelled(leader, revision))
        return ready

    def _group_broken(self, leader: PodView, worker: PodView | None, workers: Object) -> bool:
        """Tell whether a pod of the group has been lost since the group was made.

        Pods and StatefulSet of an earlier leader are not part of the group: the garbage
        collector is about to take them.
        """
        if leader.restarts:
            return True
        own_set = any(o["uid"] == leader.uid for o in workers["metadata"]["ownerReferences"])
        set_uid: str = workers["metadata"]["uid"]
        if worker is None or not own_set or worker.owner_uid != set_uid:
            return False
        first = self._workers_seen.setdefault(set_uid, worker.uid)
        return worker.restarts > 0 or worker.deleting or first != worker.uid

    def _worker_set(self, name: str) -> Object | None:
        try:
            return plain(self._client.get(StatefulSet, name, namespace=self._namespace))
        except ApiError as error:
            if error.status.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _create_workers(self, lws: Object, leader: PodView) -> None:
        workers = typed(StatefulSet, worker_set(lws, leader))
        try:
            self._client.create(workers, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status.code != HTTPStatus.CONFLICT:
                raise

    def _write_status(self, lws: Object, *, ready: bool, updated: bool) -> None:
        status = {
            "replicas": lws["spec"].get("replicas", 1),
            "readyReplicas": int(ready),
            "updatedReplicas": int(updated),
            "observedGeneration": lws["metadata"]["generation"],
            "conditions": _conditions(lws, ready=ready, updated=updated),
        }
        if status == lws.get("status"):
            return
        lws["status"] = status
        self._client.patch(
            LeaderWorkerSet.Status,
            lws["metadata"]["name"],
            {"status": status},
            namespace=self._namespace,
            patch_type=PatchType.MERGE,
        )


def _labelled(pod: PodView | None, revision: str) -> bool:
    return pod is not None and pod.labels.get(REVISION_LABEL) == revision


def _current(pod: PodView | None, revision: str) -> bool:
    return pod is not None and pod.ready and not pod.deleting and _labelled(pod, revision)


def _conditions(lws: Object, *, ready: bool, updated: bool) -> list[Object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    before = {c["type"]: c for c in lws.get("status", {}).get("conditions", ())}
    states = {"Available": ready, "Progressing": not ready, "UpdateInProgress": not updated}

    def condition(kind: str, holds: bool) -> Object:
        old = before.get(kind, {})
        same = old.get("status") == str(holds)
        return {
            "type": kind,
            "status": str(holds),
            "reason": "LwsDouble",
            "message": "",
            "lastTransitionTime": old["lastTransitionTime"] if same else now,
        }

    return [condition(kind, holds) for kind, holds in states.items()]
