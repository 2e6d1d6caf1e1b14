"""Ways in which the driver of a rollout, or what it drives, comes to an end."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from cli_runs import Here
from rollout_lab import PATIENCE_S, Lab


def dies(here: Here, driver: subprocess.Popen[str]) -> None:
    driver.kill()
    here.end(driver)


def dies_with_pulumi(here: Here, driver: subprocess.Popen[str]) -> None:
    """As when the machine loses power: the stack stays locked, its update half done."""
    wait_for_lock(here)
    driver.kill()
    for process in here.processes():
        with suppress(psutil.NoSuchProcess):
            if process.name().startswith("pulumi"):
                process.kill()
    here.end(driver)
    assert list(locks(here))


def dies_and_leaves_pulumi(here: Here, driver: subprocess.Popen[str]) -> None:
    """The update goes on without its driver; the next one has to wait for it."""
    wait_for_lock(here)
    dies(here, driver)


def dies_while_another_asks(here: Here, driver: subprocess.Popen[str]) -> None:
    """The second one is told who drives; the driver does not move meanwhile."""
    driver.send_signal(signal.SIGSTOP)
    busy = here.run("rollout", "resume", "fleet.yaml")
    assert (busy.code, f"driven by pid {driver.pid}" in busy.err) == (9, True), busy.err
    dies(here, driver)


def is_interrupted(here: Here, driver: subprocess.Popen[str]) -> None:
    """Ctrl-C says how to go on."""
    driver.send_signal(signal.SIGINT)
    ended = here.end(driver)
    assert (ended.code, "rollout resume" in ended.err) == (130, True), ended.err


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
    deadline = time.monotonic() + PATIENCE_S
    while not list(locks(here, region)):
        assert time.monotonic() < deadline, "no update has begun"
        time.sleep(0.02)


@contextmanager
def falling(here: Here, lab: Lab, release: str) -> Iterator[None]:
    """Let each engine of a release end as soon as it has started."""
    stop = threading.Event()

    def kill_all() -> None:
        while not stop.wait(0.2):
            folders = [
                f"/pods/{pod.name}-{pod.uid[:8]}"
                for cluster in lab.clusters
                for pod in cluster.engines()
                if pod.leader and pod.release == release
            ]
            for process in here.processes() if folders else ():
                with suppress(psutil.NoSuchProcess):
                    if process.cwd().endswith(tuple(folders)):
                        process.kill()

    thread = threading.Thread(target=kill_all)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=PATIENCE_S)


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
