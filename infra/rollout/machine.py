"""Take from this machine what a driver needs of it: its clocks, its user, its name."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime

from infra.rollout.lease import Time
from infra.rollout.waiting import Waiter

TIME = Time(clock=time.monotonic, now=lambda: datetime.now(UTC), pause=time.sleep)


def who() -> str:
    """Name the user for the record."""
    return getpass.getuser()


def named(what: str) -> str:
    """Name this process for a lease, with what it does."""
    return f"{who()}@{socket.gethostname()}/{os.getpid()} {what}"


def holder() -> dict[str, str]:
    """Describe this process to whoever finds the record held."""
    return {
        "pid": str(os.getpid()),
        "host": socket.gethostname(),
        "user": who(),
        "since": TIME.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def now_s() -> float:
    """Give the Unix time."""
    return TIME.now().timestamp()


def waiter(stop: Callable[[], bool]) -> Waiter:
    """Wait by this machine's clocks."""
    return Waiter(clock=time.monotonic, pause=time.sleep, stop=stop)
