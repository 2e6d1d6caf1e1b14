"""Remove the lock of an update whose process is dead.

Pulumi's own backends lock with a file that names process and machine. A killed
update leaves it behind, and `pulumi cancel` would remove any lock, also that of
an update that runs. So: only a lock of this machine, and only of a process that
no longer exists.
"""

from __future__ import annotations

import socket
from datetime import datetime

import psutil

from fleet.errors import BusyError
from infra.state.store import Lock, StackName, StateStore


def release_stale_locks(store: StateStore, name: StackName, now: datetime) -> list[Lock]:
    """Remove a stack's dead locks and return them; raise BusyError on a live one."""
    removed = []
    for lock in store.locks(name):
        if not is_stale(lock):
            raise BusyError(
                f"{name.stack}: an update is running: {lock.told(now)}. Wait for it or stop it. If "
                f"that machine is gone for good, remove {lock.place} with `k3fleet unlock`."
            )
        store.remove(lock)
        removed.append(lock)
    return removed


def is_stale(lock: Lock) -> bool:
    """Say whether the holder was a process of this machine that is gone."""
    return is_here(lock) and not _runs_pulumi(lock.pid)


def is_here(lock: Lock) -> bool:
    """Say whether the holder is, or was, a process of this machine."""
    return lock.host == socket.gethostname()


def _runs_pulumi(pid: int) -> bool:
    """Say whether a process exists and is Pulumi; its number may have been given anew."""
    try:
        process = psutil.Process(pid)
        return process.name().startswith("pulumi") and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
