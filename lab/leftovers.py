"""End a lab from outside: one that was kept, or what a killed run left."""

from __future__ import annotations

import contextlib
from pathlib import Path

from fleet.errors import ConfigError, LabError
from lab.processes import end_marked, labs_of
from lab.state import forget_state, read_state


def end_lab(work_dir: Path) -> int | None:
    """End the lab of a work folder; return how many processes ran, or nothing without a lab.

    The mark of its processes is enough: the state file may be damaged, or gone with its folder.
    """
    ids = set(labs_of(work_dir))
    with contextlib.suppress(LabError):
        state = read_state(work_dir)
        if state is not None:
            ids.add(state.lab_id)
    forget_state(work_dir)
    if not ids:
        return None
    return sum(end_marked(lab_id) for lab_id in ids)


def end_old_lab(work_dir: Path) -> str | None:
    """End what a killed run left in the work folder; refuse while a kept lab is up.

    Returns a sentence about what was ended, or nothing.
    """
    state = read_state(work_dir)
    if state is not None and state.kept and state.alive:
        raise ConfigError(
            f"{work_dir}: a lab of this fleet is up since {state.started_at:%H:%M}. "
            "End it with `k3fleet lab down FLEET_FILE`, or give another --work-dir."
        )
    ended = end_lab(work_dir)
    return f"ended {ended} processes that an earlier run left" if ended else None
