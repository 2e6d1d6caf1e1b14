"""Read the environment: the only place that does."""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import re
import socket
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cli.progress import TerminalProgress
from fleet.load import Fleet
from infra.capacity.clock import Clock
from infra.rollout.lease import Holder
from infra.rollout.process import is_gone, own_process
from lab.rehearsal import Surroundings

WORK_FOLDER = ".k3fleet"
WEBHOOK = "K3FLEET_WEBHOOK"  # an address that is a secret must not be in a file
_SECRET_NAME = re.compile(
    "TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|WEBHOOK|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL"
)


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's cache folder for k3fleet."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/")) / ".cache")
    return Path(base) / "k3fleet"


def tool_surroundings() -> tuple[Path, dict[str, str]]:
    """Return where tools are kept, and the environment they are looked for and built in."""
    return cache_dir(os.environ), dict(os.environ)


def secret_webhook() -> str | None:
    """Return the address of a webhook that is a secret, if there is one."""
    return os.environ.get(WEBHOOK) or None


def lock_holder() -> Holder:
    """Name this process for the lock of a bucket."""
    name = f"{getpass.getuser()}@{socket.gethostname()}/{os.getpid()}"
    return Holder(name=name, process=own_process(), is_gone=is_gone)


def work_folder(fleet: Fleet, given: Path | None) -> Path:
    """Return where a fleet's state and reports go."""
    return (given or Path(WORK_FOLDER) / fleet.spec.name).absolute()


def capacity_clock() -> Clock:
    """Return the time of the day for what is bought and ends."""
    return Clock(now=lambda: datetime.now(UTC), pause=time.sleep)


def chance() -> random.Random:
    """Return randomness that nobody can guess, for names that must be unique."""
    return random.SystemRandom()


def surroundings(fleet: Fleet, work_dir: Path | None) -> Surroundings:
    """Collect what a rehearsal takes from this process."""
    return _surroundings(work_folder(fleet, work_dir))


def loadtest_surroundings(work_dir: Path | None) -> Surroundings:
    """Collect the same for a load test of an endpoint, which belongs to no fleet."""
    return _surroundings((work_dir or Path(WORK_FOLDER)).absolute())


def _surroundings(work_dir: Path) -> Surroundings:
    return Surroundings(
        work_dir=work_dir,
        cache_dir=cache_dir(os.environ),
        environ=dict(os.environ),
        command=("k3fleet", *sys.argv[1:]),
        progress=TerminalProgress(sys.stderr),
        now=lambda: datetime.now(UTC),
    )


def kubeconfigs(given: Path | None) -> tuple[Path, ...]:
    """Return the kubeconfigs to look for a context in, as kubectl does."""
    if given:
        return (given.absolute(),)
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = Path(os.environ.get("HOME", "/")) / ".kube" / "config"
    return tuple(Path(part).absolute() for part in named) or (home,)


def known_secrets() -> frozenset[str]:
    """Return the values of the environment that must not be shown, by the variables' names."""
    found: set[str] = set()
    for name, value in os.environ.items():
        if not _SECRET_NAME.search(name.upper()):
            continue
        if name.upper().endswith("_FILE"):
            with contextlib.suppress(OSError, ValueError):
                found.add(Path(value).read_text(encoding="utf-8").strip())
        elif not _is_path(value):
            found.add(value)
    return frozenset(found)


def _is_path(value: str) -> bool:
    """Say whether it is the place of a secret, not one itself: base64 may begin with a slash."""
    with contextlib.suppress(OSError, ValueError):
        return value.startswith("/") and Path(value).exists()
    return False


def user_name() -> str:
    """Return who runs this process, for locks."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())
