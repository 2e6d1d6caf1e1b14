"""The process kubelet: a real process for each pod that the scheduler placed.

A frontend pod runs its rendered command, a gateway pod runs Envoy with the rendered file, and a
replica whose two pods run becomes one `dynamo.mocker` with the leader's identity, unless its engine
is a house engine: then both pods run the command of its release. Killing a pod
ends its process; a process that dies makes its pod unready, so the router drops it, as in a
cluster. Readiness is stricter than the manifest's probe: a frontend or gateway must list the
model and answer one chat.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx2
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from fleet.errors import FleetError
from lab.containers import Place, ProcessPlan
from lab.events import PROCESS_ENDED
from lab.log import log
from lab.network import shown_address
from lab.node_context import NodeContext
from lab.pods import PodView
from lab.processes import Service
from lab.volumes import Volume
from lab.workloads import Workload, workload_of

POLL_S = 0.2
PROBE_PERIOD_S = 1.0
RESTART_PAUSES_S = (1.0, 2.0, 5.0, 10.0)


class ProcessKubelet:
    """Runs each pod of the namespace in a thread of its own, until it is deleted."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._numbers = itertools.count()
        self._runners: dict[str, PodRunner] = {}
        self._lock = threading.Lock()
        node.store.subscribe(self._on_pod)

    def wait(self) -> None:
        """Wait for all runners to end, after the node's stop event is set."""
        for runner in self._runners.values():
            runner.join()

    def _on_pod(self, pod: PodView, gone: bool) -> None:
        with self._lock:
            runner = self._runners.get(pod.uid)
            if gone:
                if runner is not None:
                    runner.deleted.set()
                    del self._runners[pod.uid]
            elif runner is not None:
                runner.pod = pod
                if pod.deleting:
                    runner.deleted.set()
            elif pod.node is not None and not self._node.stop.is_set():
                address = self._node.settings.network.pod(next(self._numbers))
                runner = PodRunner(self._node, pod, address)
                self._runners[pod.uid] = runner
                runner.start()


@dataclass(slots=True)
class _Reported:
    """What was last told to the API server."""

    ready: bool | None = None
    restarts: int = 0


class PodRunner(threading.Thread):
    """Runs one pod: start, probe, restart, and at last end its process and the pod object."""

    def __init__(self, node: NodeContext, pod: PodView, address: str) -> None:
        super().__init__(name=pod.name, daemon=True)
        self.pod = pod
        self.deleted = threading.Event()
        self._node = node
        self._address = address
        self._folder = node.settings.folder / "pods" / f"{pod.name}-{pod.uid[:8]}"
        self._reported = _Reported()
        self._service: Service | None = None
        self._volumes: tuple[Volume, ...] = ()

    @property
    def _ending(self) -> bool:
        return self.deleted.is_set() or self._node.stop.is_set()

    def run(self) -> None:
        """Live the pod's life; an unexpected error ends this pod only, and is logged."""
        try:
            self._run()
        except (FleetError, httpx2.HTTPError, OSError) as error:
            log(f"{self.pod.name}: {error}")
            self._report(ready=False, message=str(error))
            self._wait_for(lambda: False)
        finally:
            self._end()
            self._node.mounts.tear_down(self._volumes)

    def _run(self) -> None:
        self._report(ready=False)
        place = Place(address=self._address, folder=self._folder)
        workload = workload_of(self.pod, place, self._node)
        if workload is None:  # the second pod of a replica: no process of its own
            self._report(ready=True)
            self._wait_for(lambda: False)
            return
        self._wait_for(workload.may_start)
        if self._ending:
            return
        plan = workload.plan()
        self._mount(plan)
        for attempt in itertools.count():
            if self._ending:
                return
            self._live(workload, plan)
            if self._ending:
                return
            self._reported.restarts += 1
            self._report(ready=False, message="the process ended")
            self.deleted.wait(RESTART_PAUSES_S[min(attempt, len(RESTART_PAUSES_S) - 1)])

    def _live(self, workload: Workload, plan: ProcessPlan) -> None:
        """Start the process and probe it until it ends or the pod is to go."""
        for mount in plan.mounts:
            mount.appear()
        name = f"{self._node.settings.region}-{self.pod.name}"
        service = self._node.launcher.start(name, plan.argv, env=plan.env, cwd=self._folder)
        self._service = service
        ready = workload.new_probe()
        failures = 0
        while service.running and workload.may_run() and not self._ending:
            failures = 0 if ready() else failures + 1
            if failures == 0 or failures >= self.pod.failure_threshold:
                self._tell(ready=failures == 0)
            pause = PROBE_PERIOD_S if self._reported.ready else POLL_S
            self._wait_for(lambda: not service.running, timeout_s=pause)
        if not self._ending:
            by_itself = not service.running
            code = service.stop(grace_s=0.0)
            why = f"{PROCESS_ENDED} with code {code}" if by_itself else "its other pod is gone"
            self._node.events.add(self.pod, "lost", why)

    def _tell(self, *, ready: bool) -> None:
        """Report readiness, and record when it comes or goes."""
        if ready and not self._reported.ready and not self.pod.is_worker:
            # Of a replica: the second pod has no probe, and serves nobody.
            self._node.events.add(self.pod, "ready")
        elif not ready and self._reported.ready:
            self._node.events.add(self.pod, "lost", "does not answer its probe")
        self._report(ready=ready)

    def _mount(self, plan: ProcessPlan) -> None:
        """Make the folders of a pod; an object that is not there yet is waited for."""
        for folder in (self._folder, *plan.folders):
            folder.mkdir(parents=True, exist_ok=True)
        self._volumes = plan.volumes
        for volume in plan.volumes:
            shown = partial(self._node.mounts.set_up, volume)
            if not shown():
                self._report(ready=False, message=f"{volume.kind} {volume.name} is not there")
                self._wait_for(shown)

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float = float("inf")) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ending and not condition() and time.monotonic() < deadline:
            self.deleted.wait(POLL_S)

    def _end(self) -> None:
        if self._node.stop.is_set():  # the whole lab ends: nobody is left to drain for
            if self._service is not None:
                self._service.stop(grace_s=0.5)
            return
        if self._service is not None:
            self._node.stop.wait(self.pod.pre_stop_s)
            self._service.stop(max(0.0, self.pod.grace_s - self.pod.pre_stop_s))
        if not self.deleted.is_set():  # our own bug ended this thread: the pod stays, unready
            return
        with contextlib.suppress(httpx2.HTTPError, OSError):
            self._node.client.delete(
                Pod, self.pod.name, namespace=self.pod.namespace, grace_period=0
            )

    def _report(self, *, ready: bool, message: str = "") -> None:
        if self._reported.ready == ready and not message:
            return
        self._reported.ready = ready
        status = pod_status(
            self.pod, self._address, ready=ready, restarts=self._reported.restarts, message=message
        )
        try:
            self._node.client.patch(
                Pod.Status,
                self.pod.name,
                {"metadata": {"uid": self.pod.uid}, "status": status},
                namespace=self.pod.namespace,
                patch_type=PatchType.STRATEGIC,
            )
        except ApiError as error:
            if error.status.code not in {404, 409}:  # 404, 409: the pod is gone or another one
                raise


def pod_status(
    pod: PodView, address: str, *, ready: bool, restarts: int, message: str
) -> dict[str, Any]:
    """Build the status that a kubelet would write for a running pod."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = shown_address(address)
    state = str(ready)
    container: Mapping[str, Any] = pod.container
    return {
        "phase": "Running",
        "podIP": shown,
        "podIPs": [{"ip": shown}],
        "hostIP": shown,
        "startTime": now,
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": now},
            {"type": "Ready", "status": state, "lastTransitionTime": now, "message": message[:500]},
            {"type": "ContainersReady", "status": state, "lastTransitionTime": now},
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": container.get("image", ""),
                "ready": ready,
                "started": ready,
                "restartCount": restarts,
                "state": {"running": {"startedAt": now}},
            }
        ],
    }
