"""Name this process so that another one can find whether it is gone.

A process id alone would be found again in every container: the machine's boot, the id's
namespace and the start of the process go with it.
"""

from __future__ import annotations

from pathlib import Path

import psutil

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def own_process() -> str:
    """Name this process."""
    me = psutil.Process()
    return f"{_place()} {me.pid} {me.create_time():.2f}"


def is_gone(name: str) -> bool:
    """Say whether a process was of this machine and has ended; what cannot be seen may live."""
    place, _, rest = name.rpartition(" ")
    place, _, number = place.rpartition(" ")
    if not place or place != _place():
        return False
    try:
        process = psutil.Process(int(number))
        same = f"{process.create_time():.2f}" == rest
        return not same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _place() -> str:
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        return f"{boot} {_NAMESPACE.readlink()}"
    except OSError:  # no Linux: nobody's end can be seen
        return ""
