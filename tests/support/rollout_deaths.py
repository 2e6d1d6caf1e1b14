"""Ways in which the driver of a rollout, or what it drives, comes to an end."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from cli_runs import Here
from lightkube.resources.core_v1 import Node
from patience import wait_until
from rollout_lab import PATIENCE_S, QUICK_S, Lab


def is_terminated(here: Here, driver: subprocess.Popen[str]) -> None:
    """As by a pipeline that was cancelled, in an update."""
    wait_for_lock(here, "west")
    driver.send_signal(signal.SIGTERM)
    ended = here.end(driver)
    assert (ended.code, "rollout resume" in ended.err) == (143, True), ended.err
    # Its update has ended too; interrupted at its very start, it leaves the lock behind.
    assert [p for p in here.processes() if p.name().startswith("pulumi")] == []


def locks(here: Here, region: str = "east") -> Iterator[Path]:
    return (here.work_dir / "lab/pulumi/state/.pulumi/locks").rglob(f"serving-{region}/*.json")


def wait_for_lock(here: Here, region: str = "east") -> None:
    """Wait until the update itself runs, behind its preview."""
    wait_until(lambda: [*locks(here, region)], "no update has begun", PATIENCE_S, QUICK_S)


@contextmanager
def frozen(here: Here, region: str) -> Iterator[None]:
    """Let the API server of a region answer nobody."""
    [server] = [
        process
        for process in here.processes()
        if process.name() == "kube-apiserver" and f"/lab/{region}/" in " ".join(process.cmdline())
    ]
    server.suspend()
    try:
        yield
    finally:
        server.resume()


def kill_engine(here: Here, lab: Lab, replica: str, release: str) -> None:
    """End the engine of a replica's new pod once it runs; the replica's pods are made anew."""

    def killed() -> int:
        folders = [
            f"/pods/{pod.name}-{pod.uid[:8]}"
            for cluster in lab.clusters
            for pod in cluster.engines()
            if (pod.leader, pod.replica, pod.release) == (True, replica, release)
        ]
        return _killed(here, folders)

    wait_until(killed, f"{replica} has no engine of {release}", PATIENCE_S)


def restart_frontend(here: Here, lab: Lab, region: str) -> None:
    """End the frontend of a region, and wait until its gateway gets answers again."""
    [cluster] = [one for one in lab.clusters if one.region == region]
    [frontend] = cluster.frontends()
    assert _killed(here, [f"/pods/{frontend.pod}-"])
    wait_until(
        lambda: not cluster.frontends(), f"{region}: its frontend is still there", PATIENCE_S
    )
    wait_until(cluster.frontends, f"{region}: it has no frontend", PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while why := lab.fault(lab.told["regions"][region]["gateway_url"]):
        assert time.monotonic() < deadline, why


def _killed(here: Here, folders: Iterable[str]) -> int:
    """Kill what works in some pods' folders; say how many processes that were."""
    count = 0
    for process in here.processes():
        with suppress(psutil.NoSuchProcess):
            if any(folder in process.cwd() for folder in folders):
                process.kill()
                count += 1
    return count


@contextmanager
def cordoned(lab: Lab, replica: str) -> Iterator[None]:
    """Let no new pod be placed on the node of a replica's leader."""
    [(cluster, node)] = [
        (cluster, pod.node)
        for cluster in lab.clusters
        for pod in cluster.engines()
        if pod.leader and pod.replica == replica
    ]
    cluster.client.patch(Node, node, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        cluster.client.patch(Node, node, {"spec": {"unschedulable": False}})
