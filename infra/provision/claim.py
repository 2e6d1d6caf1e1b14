"""Let one process of a working copy work on a stack at a time.

Pulumi locks a stack only while it changes it. Two commands side by side would
still write the same log and events while they look.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from fleet.errors import ApplyError, BusyError
from infra.state.store import Lock

FILE = "in-use"


@contextmanager
def claimed(folder: Path, what: str, user: str, now: datetime) -> Iterator[None]:
    """Hold a stack's folder; raise BusyError naming who holds it."""
    _make(folder)
    with (folder / FILE).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BusyError(_held(folder, now)) from error
        file.truncate(0)
        about = {"pid": os.getpid(), "hostname": socket.gethostname(), "username": user}
        json.dump({**about, "timestamp": now.isoformat(), "what": what}, file)
        file.flush()
        yield


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # the system's own trees, such as /proc, take no folder
        raise PermissionError(errno.EACCES, "no folder can be made there", str(folder)) from error


def _held(folder: Path, now: datetime) -> str:
    text = (folder / FILE).read_text(encoding="utf-8")
    try:
        holder = Lock.read(str(folder / FILE), text).told(now)
        what = str(json.loads(text).get("what", "k3fleet"))
    except (ApplyError, ValueError):  # it is being written at this moment
        holder, what = "another process", "k3fleet"
    return f"{folder.name}: in use by `{what}`: {holder}. Wait for it, or stop it."
