"""Rehearse a launch: from a fleet file to a verdict, every step real but GPUs and time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fleet.errors import LabError
from fleet.load import Fleet
from fleet.plan import Plan, RegionPlan, make_plan
from lab.bring_up import LabRequest, check_room, prepare, start_and_place, wait_serving
from lab.events import outages, read_events
from lab.interrupts import interruptible, shielded
from lab.lab import Lab
from lab.load_settings import check_traffic, load_settings
from lab.load_target import serving_gpus
from lab.meter import MemoryMeter
from lab.mocked import mocked
from lab.rehearsal import Rehearsal, RehearsalOptions, Surroundings
from lab.report import write_report
from lab.report_data import Findings, build_report
from lab.state import LabState
from lab.steps import Steps
from lab.traffic import run_traffic
from lab.work_folder import claim
from loadtest.judge.gates import GateSet, gates_file, load_gate_set
from loadtest.judge.judging import JudgedRun, judge_run
from loadtest.results.run_facts import Machine, RunFacts, write_facts
from loadtest.results.run_folder import read_run
from loadtest.results.saved_run import read_saved
from verify.smoke import reports_cached

AFTER_PACKING = ("engines", "traffic", "judge")
REPORT = "report.html"
RUNS_FOLDER = "runs"
LATEST = "latest"


@dataclass(slots=True, kw_only=True)
class _Run:
    """One rehearsal on its way; findings are filled in as steps end."""

    fleet: Fleet
    plan: Plan
    options: RehearsalOptions
    gates: GateSet
    around: Surroundings
    folder: Path
    steps: Steps
    findings: Findings = field(default_factory=Findings)
    workers: dict[str, str] = field(default_factory=dict)


def rehearse(fleet: Fleet, options: RehearsalOptions, around: Surroundings) -> Rehearsal:
    """Run all steps and write the report; the lab is ended whatever happens, unless kept.

    Raises FleetError when a step could not be done (the report then says which), and
    Interrupted after clean-up when a signal came.
    """
    gates = load_gate_set(gates_file(options.gates))
    check_traffic(options)
    plan = make_plan(fleet)
    with claim(around.work_dir):
        return _rehearse(fleet, plan, gates, options, around)


def _rehearse(
    fleet: Fleet,
    plan: Plan,
    gates: GateSet,
    options: RehearsalOptions,
    around: Surroundings,
) -> Rehearsal:
    check_room(fleet, plan, around, real_tokenizer=options.tokenizer_dir is not None)
    started_at = around.now()
    run = _Run(
        fleet=fleet,
        plan=plan,
        options=options,
        gates=gates,
        around=around,
        folder=around.work_dir / RUNS_FOLDER / f"{started_at:%Y%m%d-%H%M%S-%f}",
        steps=Steps(progress=around.progress, clock=time.monotonic),
        findings=Findings(started_at=started_at),
    )
    with interruptible():
        try:
            kept = _all_steps(run)
        except BaseException:
            if run.folder.exists():  # else it was refused before anything was started
                with shielded():
                    _write_what_there_is(run)
            raise
        report = _write(run)
    return Rehearsal(report=report, folder=run.folder, lab=kept)


def _all_steps(run: _Run) -> LabState | None:
    request = LabRequest(
        fleet=run.fleet,
        plan=run.plan,
        token_scale=run.options.token_scale,
        tokenizer_dir=run.options.tokenizer_dir,
    )
    lab = prepare(request, run.around, run.steps)
    _make_run_folder(run.folder)
    run.findings.toolchain = lab.settings.toolchain
    meter = MemoryMeter(lab.id)
    kept: LabState | None = None
    try:
        run.findings.packing = start_and_place(lab, run.steps)
        if run.findings.packing.ok:
            _serve_and_judge(run, lab)
        else:
            for name in AFTER_PACKING:
                run.steps.skip(name, "the packing is not as planned")
        if run.options.keep:
            kept = lab.keep(load_settings(run.options, lab, lab.load_dir))
    finally:
        with shielded():
            meter.stop()
            run.findings.peak_memory_bytes = meter.peak_bytes
            if kept is None:
                with run.steps.step("end") as step:
                    lab.stop()
                    step.detail = "all processes ended"
    return kept


def _serve_and_judge(run: _Run, lab: Lab) -> None:
    wait_serving(lab, run.steps)
    _warn_of_hidden_cache(run, lab)
    run.workers |= _workers(lab)
    settings = load_settings(run.options, lab, run.folder)
    with run.steps.step("traffic") as step:
        run_traffic(lab, settings, step, web_port=run.options.web_port)
    with run.steps.step("judge") as step:
        judged = _judge(run, lab)
        judgement, run.findings.notes = judged.judgement, judged.notes
        run.findings.summary, run.findings.judgement = judged.summary, judgement
        failed = ", ".join(gate.id for gate in judgement.gates if gate.status == "fail")
        step.detail = f"{judgement.verdict}: {failed}" if failed else judgement.verdict


def _warn_of_hidden_cache(run: _Run, lab: Lab) -> None:
    """Say before the traffic that gates will have nothing to measure: engines differ here."""
    model = lab.settings.model_name
    hidden = [name for name, url in lab.targets.items() if not reports_cached(url, model)]
    gates = [gate.id for gate in run.gates.gates if gate.metric.startswith("hit.")]
    if hidden and gates:
        run.around.progress.note(
            f"{', '.join(hidden)}: answers have no usage.prompt_tokens_details.cached_tokens, so "
            f"{', '.join(gates)} cannot be judged. Let the engine report it, or use --gates."
        )


def _judge(run: _Run, lab: Lab) -> JudgedRun:
    files = read_run(run.folder)
    generator = files.generator
    began = datetime.fromisoformat(generator.started_at).timestamp()
    run.findings.traffic_began = began
    for region in lab.regions:
        events = outages(read_events(region.events_file))
        run.findings.events += tuple(event for event in events if event.at >= began)
    registered = _workers(lab)
    workers = run.workers | registered
    records = files.records
    seen = {id_ for record in records for id_ in (record.worker, record.prefill_worker)}
    busy = {name for id_, name in workers.items() if id_ in seen}
    facts = RunFacts(
        name=run.fleet.spec.name,
        command=run.around.command,
        replicas={region.name: _replica_names(region) for region in run.plan.regions},
        worker_names=workers,
        registered=frozenset(registered.values()),
        roles={name: role for region in lab.regions for name, role in region.roles.items()},
        answered=_ask_idle(lab, busy),
        gpus=serving_gpus(run.fleet, run.plan.regions),
        mocked=mocked(run.fleet.release),
        machine=Machine.here(),
    )
    write_facts(facts, run.folder)  # so that the run can be judged again without the lab
    return judge_run(read_saved(run.folder), run.gates)


def _ask_idle(lab: Lab, busy: set[str]) -> frozenset[str]:
    """Ask the replicas that got no traffic for a chat: the router may rightly leave one idle."""
    return frozenset(
        name
        for region in lab.regions
        for name in region.answering(lab.settings.model_name, beside=busy)
    )


def _workers(lab: Lab) -> dict[str, str]:
    return {id_: name for region in lab.regions for id_, name in region.registered().items()}


def _replica_names(region: RegionPlan) -> tuple[str, ...]:
    return tuple(name for rack in region.racks for name in rack.replica_names)


def _write(run: _Run) -> Mapping[str, Any]:
    run.findings.steps = tuple(run.steps.results)
    report = build_report(run.fleet, run.plan, run.options, run.findings, run.around.command)
    draft = run.folder / ".report.json"
    try:
        draft.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")
        draft.replace(run.folder / "report.json")
        write_report(report, run.folder)
    except OSError as error:
        raise LabError(
            f"{run.folder}: the report cannot be written: {error.strerror}. Free some space."
        ) from error
    return report


def _write_what_there_is(run: _Run) -> None:
    """Write the report of a broken run; what broke it stays the error that is told."""
    try:
        _write(run)
    except LabError as error:
        run.around.progress.note(str(error))
    else:
        run.around.progress.note(f"what was found so far: {run.folder / REPORT}")


def _make_run_folder(folder: Path) -> None:
    """Make the folder of a run, and let `latest` point to it."""
    folder.mkdir(parents=True)
    draft = folder.parent / f".{LATEST}-{os.getpid()}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(folder.name)
    draft.replace(folder.parent / LATEST)
