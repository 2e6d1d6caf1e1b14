"""Look at the locks of a stack, and remove one whose holder is dead.

Pulumi's file backend locks with a file that names process and machine. A killed
update leaves it behind, and `pulumi cancel` would remove any lock, also that of
an update that runs. So: only a lock of this machine, and only of a process that
no longer exists.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.errors import ApplyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One lock file and who holds it."""

    file: Path
    pid: int
    host: str
    user: str
    since: str

    @property
    def is_stale(self) -> bool:
        """Say whether the holder was a process of this machine that is gone."""
        return self.host == socket.gethostname() and not _runs_pulumi(self.pid)

    def __str__(self) -> str:
        """Name the holder."""
        return f"process {self.pid} of {self.user} on {self.host}, since {self.since}"


def release_stale_locks(folder: Path) -> list[Lock]:
    """Remove the dead locks in a folder and return them; refuse on a live one."""
    removed = []
    for lock in _locks(folder):
        if not lock.is_stale:
            raise ApplyError(
                f"{folder.name}: an update is running: {lock}. Wait for it or stop it. If that "
                f"machine is gone for good, remove {lock.file} and run again with a refresh."
            )
        lock.file.unlink(missing_ok=True)
        removed.append(lock)
    return removed


def _locks(folder: Path) -> Iterator[Lock]:
    for file in sorted(folder.glob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            pid = int(content["pid"])
        except FileNotFoundError:  # released while we looked
            continue
        except (ValueError, KeyError, TypeError) as error:
            raise ApplyError(
                f"{file}: this lock cannot be read. "
                "Make sure that no update runs, remove the file, and run again."
            ) from error
        yield Lock(
            file=file,
            pid=pid,
            host=str(content.get("hostname", "?")),
            user=str(content.get("username", "?")),
            since=str(content.get("timestamp", "?")),
        )


def _runs_pulumi(pid: int) -> bool:
    """Say whether a process exists and is Pulumi; its number may have been given anew."""
    try:
        process = psutil.Process(pid)
        return process.name().startswith("pulumi") and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
