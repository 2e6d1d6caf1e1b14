"""Make one load test: check, send, judge; every file of it is in one folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleet.errors import ConfigError
from lab.interrupts import shielded
from lab.load_process import LoadProcess
from lab.load_target import LoadTarget
from lab.ports import require_free_port
from lab.rehearsal import Surroundings
from lab.steps import Step, Steps
from loadtest.client.chat import make_chat
from loadtest.judge.gates import GateSet, gates_file, load_gate_set
from loadtest.judge.judging import JudgedRun, judge_run
from loadtest.judge.search_limits import search_limits
from loadtest.judge.sizing import Demand, closed_loop, open_loop, pace_of, undersized, workers_note
from loadtest.play.arrival_times import rate_per_minute
from loadtest.play.load_run import make_traffic
from loadtest.prompt.words import read_vocabulary
from loadtest.report.write import write_files
from loadtest.results.run_facts import Machine, RunFacts, write_facts
from loadtest.results.saved_run import make_new, read_saved
from loadtest.run import generator_command
from loadtest.settings import LoadSettings, what_of, with_absolute_paths
from loadtest.settings_file import Parts, load_of, overlaid
from loadtest.traffic.sessions import Seeds
from verify.endpoint import require_model

SHORT_S = 2.0
"""A load that ends by itself is never so much shorter than it was asked to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What the user asks of a load test; None leaves it to the target."""

    settings: Mapping[str, Any]
    """Fields of LoadSettings."""
    out_dir: Path
    parts: Parts = field(default_factory=dict)
    """What of the settings' nested parts differs from the target's."""
    searches: bool = False
    """Search the most agents, within the limits of the gates where `parts` name none."""
    gates: str | None = None
    processes: int = 1
    web_port: int | None = None
    tokens_per_chunk: float = 1.0
    output_tokens_per_s: float | None = None
    force_undersized: bool = False


def load_test(target: LoadTarget, options: LoadOptions, around: Surroundings) -> JudgedRun:
    """Send the load and judge it; raises ConfigError before anything is sent that cannot work."""
    steps = Steps(progress=around.progress, clock=time.monotonic, says_errors=False)
    with steps.step("check") as step:
        gates = load_gate_set(gates_file(options.gates or target.gates))
        settings = _settings(target, options)
        facts = _checked(settings, target, options, around, step)
    with steps.step("traffic") as step:
        make_new(options.out_dir)
        write_facts(facts, options.out_dir)
        interrupted = _send(settings, options, around, step)
    with steps.step("judge") as step, shielded():
        judged = _judge(options.out_dir, target, facts, gates, interrupted=interrupted)
        step.detail = judged.judgement.verdict
    return judged


def _settings(target: LoadTarget, options: LoadOptions) -> LoadSettings:
    given = {name: value for name, value in options.settings.items() if value is not None}
    gates = gates_file(options.gates or target.gates)
    parts = options.parts
    if options.searches and "search" not in parts:
        parts = {**parts, "search": search_limits(load_gate_set(gates))}
    fixed = dict(target.settings)
    if given.keys() & {"users", "sessions_per_minute", "stages"} or load_of(parts):
        fixed.pop("users", None)
    fields = overlaid({**fixed, **given}, parts)
    try:
        asked = {**fields, "gates_file": gates, "out_dir": options.out_dir}
        return with_absolute_paths(LoadSettings.model_validate(asked))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise ConfigError(
            "\n".join(f"{_option(item['loc'])}: {what_of(item)}. Correct it." for item in found)
        ) from error


def _option(path: tuple[int | str, ...]) -> str:
    if len(path) > 1 and path[0] != "results":
        return f"--settings: {'.'.join(str(part) for part in path)}"
    parts = [part for part in path if part != "results"]  # what is nested has an option of its own
    name = str(parts[0]).replace("_", "-") if parts else "users, --sessions-per-minute"
    name = {"targets": "target"}.get(name, name)
    return f"--{name.removesuffix('-s').removesuffix('-dir')}"


def _checked(
    settings: LoadSettings,
    target: LoadTarget,
    options: LoadOptions,
    around: Surroundings,
    step: Step,
) -> RunFacts:
    """Check everything that can be known before the load, and say what has to be told later."""
    if options.web_port is not None:
        require_free_port("127.0.0.1", options.web_port, "End what listens there.")
    demand = Demand(
        output_tokens_per_s=options.output_tokens_per_s or _expected(settings),
        tokens_per_chunk=options.tokens_per_chunk,
    )
    machine = Machine.here()
    notes = [*workers_note(options.processes, machine.cores)]
    if too_small := undersized(demand, options.processes):
        if not options.force_undersized:
            raise ConfigError(
                f"--processes: {too_small}. Give --processes {demand.cores} on a machine with so "
                "many cores, or --force-undersized to have a run that is marked."
            )
        notes.insert(0, f"Undersized: {too_small}. Read its latencies as upper bounds.")
    headers = make_chat(settings, time.perf_counter).headers
    remarks = [
        remark
        for region, url in settings.targets.items()
        if (
            remark := require_model(
                f"--target {region}", url, settings.model, headers, ca_file=settings.client.ca_file
            )
        )
    ]
    step.detail = f"{demand.events_per_s:,.0f} events/s expected of {options.processes} process(es)"
    return target.facts.model_copy(
        update={
            "command": around.command,
            "processes": options.processes,
            "notes": (*target.facts.notes, *notes),
            "unknown": (*target.facts.unknown, *remarks),
            "machine": machine,
        }
    )


def _expected(settings: LoadSettings) -> float:
    """Estimate the output tokens/s of a load from a sample of its sessions."""
    seeds = Seeds(seed=settings.seed, salt="sizing")
    vocabulary = read_vocabulary(settings.tokenizer_dir)
    traffic = make_traffic(settings, vocabulary, seeds)
    pace = pace_of(traffic)
    if not settings.is_open_loop:
        # A search goes as far as it can: a generator that is late ends it.
        users = settings.search.start if settings.search else settings.planned_users
        return closed_loop(users, pace)
    per_minute = rate_per_minute(settings, traffic.arrivals)
    return open_loop(per_minute, settings.planned_s or settings.duration_s, pace)


def _send(settings: LoadSettings, options: LoadOptions, around: Surroundings, step: Step) -> bool:
    command = generator_command(
        settings,
        python=Path(sys.executable),
        web_port=options.web_port,
        processes=options.processes,
    )
    if options.web_port is not None:
        around.progress.note(f"web UI: http://127.0.0.1:{options.web_port}")
    watched = options.web_port is not None
    process = LoadProcess(settings=settings, environ=around.environ, watched=watched)
    return process.run(command, step)


def ended_early(sent_s: float, planned_s: float | None, *, interrupted: bool) -> tuple[str, ...]:
    """Say that a load ended before its time, by a signal or on the page; else nothing."""
    span = f"{sent_s:.0f} s" if planned_s is None else f"{sent_s:.0f} of {planned_s:.0f} s"
    judged = "Only what was sent until then is judged."
    if interrupted:
        return (f"Interrupted: a signal ended the load after {span}. {judged}",)
    if planned_s is not None and sent_s < planned_s - SHORT_S:
        return (f"Ended early: the load was stopped after {span}, as on the page. {judged}",)
    return ()


def _judge(
    folder: Path,
    target: LoadTarget,
    facts: RunFacts,
    gates: GateSet,
    *,
    interrupted: bool,
) -> JudgedRun:
    run = read_saved(folder)
    early = ended_early(run.generator.duration_s, run.settings.planned_s, interrupted=interrupted)
    facts = facts.model_copy(update={"notes": (*early, *facts.notes)})
    facts = target.look(facts, run.records)
    write_facts(facts, folder)
    judged = judge_run(read_saved(folder), gates)
    write_files(judged.report(), folder)
    return judged
