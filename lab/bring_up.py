"""The steps that bring a lab up, shared by `k3fleet rehearse` and `k3fleet lab up`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.load import Fleet
from fleet.plan import Plan
from lab.lab import Lab, LabSettings
from lab.leftovers import end_old_lab
from lab.limits import require_rehearsable
from lab.modeldir import make_model_dir
from lab.packing_check import Packing
from lab.rehearsal import Surroundings
from lab.sizing import lab_needs, require_disk, require_room
from lab.steps import Steps
from lab.toolchain import ensure_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRequest:
    """Which lab is wanted."""

    fleet: Fleet
    plan: Plan
    token_scale: int
    tokenizer_dir: Path | None


def check_room(fleet: Fleet, plan: Plan, around: Surroundings, *, real_tokenizer: bool) -> None:
    """Raise ConfigError when the lab, or this machine's memory or disk, is too small for it."""
    require_rehearsable(fleet, around.environ.get("PATH", ""))
    work_dir = around.work_dir
    needs = lab_needs(fleet, plan, real_tokenizer=real_tokenizer)
    require_room(fleet, plan, needs, available_bytes=psutil.virtual_memory().available)
    require_disk(work_dir, needs, free_bytes=shutil.disk_usage(work_dir).free)


def prepare(request: LabRequest, around: Surroundings, steps: Steps) -> Lab:
    """End what an earlier run left, and get the tools ready."""
    release = request.fleet.release
    if custom := release.engine.custom:
        command = " ".join(custom.command)
        around.progress.note(f"{release.name}: this machine runs its own command: {command}")
    with steps.step("tools") as step:
        ended = end_old_lab(around.work_dir)
        toolchain = ensure_tools(
            cache_dir=around.cache_dir, environ=around.environ, progress=around.progress
        )
        model_dir = make_model_dir(
            around.work_dir / "model",
            model=request.fleet.model,
            tokenizer_dir=request.tokenizer_dir,
            cache_dir=around.cache_dir,
            progress=around.progress,
        )
        step.detail = ended or f"{len(toolchain.versions)} tools"
    settings = LabSettings(
        fleet=request.fleet,
        plan=request.plan,
        toolchain=toolchain,
        work_dir=around.work_dir,
        model_dir=model_dir,
        token_scale=request.token_scale,
        environ=around.environ,
    )
    return Lab(settings, around.now)


def start_and_place(lab: Lab, steps: Steps) -> Packing:
    """Start the control planes, apply both layers, and judge where the scheduler put the pods."""
    with steps.step("cluster") as step:
        lab.start_cluster()
        nodes = sum(len(region.nodes()) for region in lab.regions)
        step.detail = f"{len(lab.regions)} control planes, {nodes} rack nodes Ready"
    with steps.step("provision") as step:
        results = lab.provision()
        created = sum(result.changes.get("create", 0) for result in results)
        step.detail = f"pulumi up: {created} resources in {len(results)} stacks"
    with steps.step("packing") as step:
        packing = lab.wait_scheduled()
        step.detail = _packing_detail(packing)
    return packing


def wait_serving(lab: Lab, steps: Steps) -> None:
    """Wait until every replica is Ready and every gateway answers."""
    with steps.step("engines") as step:
        lab.wait_serving(step)
        replicas = lab.settings.plan.totals.replicas
        step.detail = f"{replicas} replicas serve through {len(lab.regions)} gateways"


def _packing_detail(packing: Packing) -> str:
    if not packing.ok:
        return f"{len(packing.problems)} problems: {packing.problems[0]}"
    racks = ", ".join(f"{rack.id} {rack.replicas} replicas" for rack in packing.racks)
    return f"{racks}; no node used twice"
