"""Assemble `report.json` from what the steps of a rehearsal found."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import psutil

from fleet.load import Fleet
from fleet.plan import Plan, plan_json
from lab.events import Event
from lab.mocked import mocked
from lab.packing_check import Packing
from lab.rehearsal import RehearsalOptions
from lab.steps import StepResult
from lab.toolchain import Toolchain
from loadtest.judge.gates import Judgement
from loadtest.results.summary import Summary, summary_json

GIB = 1024**3


@dataclass(slots=True, kw_only=True)
class Findings:
    """What a rehearsal has found so far; what is missing was not reached."""

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    steps: Sequence[StepResult] = ()
    toolchain: Toolchain | None = None
    packing: Packing | None = None
    summary: Summary | None = None
    judgement: Judgement | None = None
    notes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    traffic_began: float = 0.0
    peak_memory_bytes: int = 0

    @property
    def verdict(self) -> str:
        """No-go when the packing is wrong, else what the gates say, else invalid."""
        if self.packing is not None and not self.packing.ok:
            return "no-go"
        return self.judgement.verdict if self.judgement else "invalid"


def build_report(
    fleet: Fleet,
    plan: Plan,
    options: RehearsalOptions,
    findings: Findings,
    command: Sequence[str],
) -> dict[str, Any]:
    """Return the whole report as plain data."""
    return {
        "k3fleet": importlib.metadata.version("k3fleet"),
        "fleet": fleet.spec.name,
        "verdict": findings.verdict,
        "started_at": findings.started_at.isoformat(timespec="seconds"),
        "command": list(command),
        "steps": [asdict(step) for step in findings.steps],
        "real": _real(findings.toolchain),
        "mocked": list(mocked(fleet.release)),
        "plan": plan_json(plan),
        "packing": _packing(findings.packing),
        "release": {
            "id": fleet.release_id,
            "engine": f"{fleet.release.engine.kind} {fleet.release.engine.version}",
            "dynamo": fleet.release.dynamo.version,
        },
        "router": fleet.router.model_dump(mode="json"),
        "traffic": _traffic(options, findings),
        "notes": list(findings.notes),
        "load": summary_json(findings.summary) if findings.summary else None,
        "gates": _gates(findings),
        "events": [_event(event, findings.traffic_began) for event in findings.events],
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
            "peak_memory_gib": round(findings.peak_memory_bytes / GIB, 2),
        },
    }


def _real(toolchain: Toolchain | None) -> list[str]:
    if toolchain is None:
        return []
    versions = {**toolchain.versions, "locust": importlib.metadata.version("locust")}
    return [f"{name} {version}" for name, version in sorted(versions.items())]


def _packing(packing: Packing | None) -> dict[str, Any] | None:
    if packing is None:
        return None
    status = "ok" if packing.ok else "violated"
    return {"status": status, **asdict(packing)}


def _traffic(options: RehearsalOptions, findings: Findings) -> dict[str, Any]:
    users = findings.summary.generator.users if findings.summary else options.users
    return {
        "profile": options.traffic,
        "users": users,
        "sessions_per_minute": options.sessions_per_minute,
        "duration_s": options.duration_s,
        "token_scale": options.token_scale,
        "time_scale": options.time_scale,
        "seed": options.seed,
    }


def _gates(findings: Findings) -> list[dict[str, Any]]:
    gates = [_packing_gate(findings.packing)] if findings.packing else []
    if findings.judgement:
        gates += [asdict(gate) for gate in findings.judgement.gates]
    return gates


def _packing_gate(packing: Packing) -> dict[str, Any]:
    return {
        "id": "packing",
        "title": "Packing problems",
        "kind": "slo",
        "op": "<=",
        "limit": 0.0,
        "value": float(len(packing.problems)),
        "status": "pass" if packing.ok else "fail",
        "why": "A replica that spans racks or shares a node cannot run.",
    }


def _event(event: Event, began: float) -> Mapping[str, Any]:
    return {
        "t_s": round(event.at - began, 1),
        "region": event.region,
        "replica": event.replica or event.pod,
        "what": event.what,
        "detail": event.detail,
    }
