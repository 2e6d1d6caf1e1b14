"""No process of a lab outlives it, whoever started it and however it was started."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import LabError
from lab.processes import MARK, Launcher, end_marked, log_tail, marked, process_environ

SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True);"
        " time.sleep(600)"
    ),
)


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    found = Launcher(lab_id=uuid.uuid4().hex, log_dir=tmp_path, environ=dict(os.environ))
    yield found
    found.stop(grace_s=0.0)


def test_stop_ends_a_process_that_ignores_sigterm(launcher: Launcher):
    """A hung engine must not keep its port."""
    service = launcher.start("stubborn", STUBBORN)
    launcher.wait("handler installed", lambda: "1" in log_tail(service.log), timeout_s=20)
    launcher.stop(grace_s=0.1)
    assert not service.running


def test_a_grandchild_that_left_its_session_is_found_by_its_mark(launcher: Launcher):
    """Pulumi's providers have process groups of their own and outlive a killed engine."""
    script = (
        "import subprocess, sys; "
        f"subprocess.Popen({SLEEPER!r}, start_new_session=True); print('started', flush=True)"
    )
    service = launcher.start("parent", (sys.executable, "-c", script))
    service.process.wait(timeout=20)
    assert len(list(marked(launcher.lab_id))) == 1
    assert end_marked(launcher.lab_id) == 1
    assert list(marked(launcher.lab_id)) == []


def test_processes_of_others_are_never_touched(launcher: Launcher):
    """Only the mark counts: a lab must not end what it did not start."""
    other = subprocess.Popen(SLEEPER, env={**os.environ, MARK: "another-lab"})
    try:
        end_marked(launcher.lab_id)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_waiting_fails_at_once_when_a_service_dies(launcher: Launcher):
    """A control plane that cannot start must not cost the whole timeout."""
    launcher.start("dead", (sys.executable, "-c", "print('no such flag'); raise SystemExit(3)"))
    with pytest.raises(LabError, match=r"dead: ended with code 3[\s\S]*no such flag"):
        launcher.wait("never", lambda: False, timeout_s=60)


def test_a_program_that_does_not_exist_is_named(launcher: Launcher):
    """The user's way out is `doctor`, not a traceback."""
    with pytest.raises(LabError, match="doctor"):
        launcher.start("etcd", ["/no/such/etcd"])


def test_proxies_and_other_clusters_do_not_reach_the_lab():
    """A proxy would swallow loopback requests, and KUBECONFIG may name a real cluster."""
    environ = {"HTTPS_PROXY": "x", "no_proxy": "y", "KUBECONFIG": "z", "PATH": "/bin"}
    assert process_environ(environ) == {"PATH": "/bin"}
