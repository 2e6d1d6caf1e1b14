"""Bring a lab up for work by hand, without traffic."""

from __future__ import annotations

import time

from fleet.errors import LabError
from fleet.load import Fleet
from fleet.plan import make_plan
from lab.bring_up import LabRequest, check_room, prepare, start_and_place, wait_serving
from lab.interrupts import interruptible, shielded
from lab.load_settings import load_settings
from lab.packing_check import Packing
from lab.rehearsal import RehearsalOptions, Surroundings
from lab.state import LabState
from lab.steps import Steps
from lab.work_folder import claim


def keep_lab(fleet: Fleet, options: RehearsalOptions, around: Surroundings) -> LabState:
    """Start a lab and leave it up; after a failure or a signal nothing is left."""
    plan = make_plan(fleet)
    with claim(around.work_dir), interruptible():
        real_tokenizer = options.tokenizer_dir is not None
        check_room(fleet, plan, around, real_tokenizer=real_tokenizer)
        request = LabRequest(
            fleet=fleet,
            plan=plan,
            token_scale=options.token_scale,
            tokenizer_dir=options.tokenizer_dir,
        )
        return _bring_up(request, options, around)


def _bring_up(request: LabRequest, options: RehearsalOptions, around: Surroundings) -> LabState:
    steps = Steps(progress=around.progress, clock=time.monotonic)
    lab = prepare(request, around, steps)
    try:
        _require_sound(start_and_place(lab, steps))
        wait_serving(lab, steps)
        return lab.keep(load_settings(options, lab, lab.load_dir))
    except BaseException:
        with shielded():
            lab.stop()
        raise


def _require_sound(packing: Packing) -> None:
    if not packing.ok:
        raise LabError("\n".join(packing.problems))
