"""Judge what a run left in its folder, and say it as one document."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from loadtest.judge.gates import GateSet, Judgement, about, judge
from loadtest.results.saved_run import SavedRun
from loadtest.results.stage_figures import stage_figures
from loadtest.results.summary import Summary, summarise, summary_json
from loadtest.settings import LoadSettings

REPORT_KIND = "loadtest"
REPORT_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """Hold a run, its figures and what gates say of them."""

    run: SavedRun
    summary: Summary
    judgement: Judgement
    gates: GateSet

    @property
    def notes(self) -> tuple[str, ...]:
        """Give what a reader has to know before the figures."""
        faults = (f"No whole run: {fault}." for fault in self.run.faults)
        scale = scale_notes(self.gates, self.run.settings)
        return (*self.run.facts.notes, *scale, *faults, *self.summary.run.findings)

    def report(self) -> dict[str, Any]:
        """Give report.json; docs/loadtest.md says what its fields are."""
        run, settings, facts = self.run, self.run.settings, self.run.facts
        return {
            "kind": REPORT_KIND,
            "schema": REPORT_SCHEMA,
            "k3fleet": version("k3fleet"),
            "fleet": facts.name,
            "verdict": self.judgement.verdict,
            "started_at": run.generator.started_at,
            "command": list(facts.command),
            "gate_set": self.gates.name,
            "notes": list(self.notes),
            "real": list(facts.real),
            "mocked": list(facts.mocked),
            "unknown": list(facts.unknown),
            "traffic": {
                "profile": settings.traffic,
                "users": settings.users,
                "sessions_per_minute": settings.sessions_per_minute,
                "stages": "; ".join(stage.name for stage in settings.stages) or None,
                "duration_s": settings.planned_s,
                "sent_s": round(run.generator.duration_s, 1),
                "token_scale": settings.token_scale,
                "time_scale": settings.time_scale,
                "seed": settings.seed,
                "processes": facts.processes,
                "model": settings.model,
                **{f"target {name}": url for name, url in settings.targets.items()},
            },
            "load": summary_json(self.summary),
            "stages": [asdict(stage) for stage in stage_figures(run.records, run.generator)],
            "gates": [asdict(gate) for gate in self.judgement.gates],
            "machine": facts.machine.model_dump() if facts.machine else {},
        }


def scale_notes(gates: GateSet, settings: LoadSettings) -> tuple[str, ...]:
    """Say that gates for real traffic judged traffic that was made smaller."""
    if not gates.real_scale or settings.token_scale == settings.time_scale == 1:
        return ()
    note = (
        f"The gates {gates.name} are meant for real lengths and pauses. Here lengths were divided "
        f"by {settings.token_scale:g} and pauses by {settings.time_scale:g}: their limits on "
        "latency, tokens per GPU and context say nothing of the real load."
    )
    return (note,)


def judge_run(run: SavedRun, gates: GateSet) -> JudgedRun:
    """Compute the figures of a run and hold them against gates."""
    context = run.facts.context(run.settings, run.files)
    if gates.levels is not None:
        results = context.results.model_copy(update={"slo": gates.levels})
        context = replace(context, results=results)
    summary = summarise(run.records, run.generator, context)
    judgement = judge(summary, about(gates.gates, run.settings))
    return JudgedRun(run=run, summary=summary, judgement=judgement, gates=gates)
