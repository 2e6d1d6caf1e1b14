"""Name this process so that another one can find whether it is gone.

A process id alone would be found again in every container: the machine's boot, the id's
namespace and the start of the process go with it. The start is counted in ticks since the boot,
and not in the time of day: that one moves whenever somebody sets the machine's clock, and a
driver that lives would look like another process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_NAMESPACE = _PROC / "self/ns/pid"
# proc_pid_stat(5), counted behind the name in parentheses: state is field 3, starttime field 22.
_STATE, _START = 0, 19
_ENDED = frozenset({"Z", "X"})


class _Seen(NamedTuple):
    state: str
    start: str


def own_process() -> str:
    """Name this process."""
    place = _place()
    return f"{place} {os.getpid()} {_look(os.getpid()).start if place else ''}".strip()


def is_gone(name: str) -> bool:
    """Say whether a process was of this machine and has ended; what cannot be seen may live."""
    place, _, start = name.rpartition(" ")
    place, _, number = place.rpartition(" ")
    if not place or place != _place() or not number.isdigit():
        return False
    try:
        seen = _look(int(number))
    except FileNotFoundError:
        return not _answers(int(number))
    except ProcessLookupError:  # it ended while it was looked at
        return True
    return seen.start != start or seen.state in _ENDED


def _look(pid: int) -> _Seen:
    text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    fields = text.rpartition(")")[2].split()
    return _Seen(fields[_STATE], fields[_START])


def _answers(pid: int) -> bool:
    """Say whether there is such a process, though /proc may hide other users' ones."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _place() -> str:
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        return f"{boot} {_NAMESPACE.readlink()}"
    except OSError:  # no Linux: nobody's end can be seen
        return ""
