"""Judge a summary by gates: go, no-go, or a measurement that cannot be judged.

A validity gate that fails makes the run invalid, whatever else it shows. Else a service gate that
fails makes it a no-go. Else a gate without a value makes it invalid: nobody can say go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field

from fleet.errors import EXIT_GO, EXIT_INVALID, EXIT_NO_GO, ConfigError, Problem
from fleet.schema import FileModel, suggestion, validate
from fleet.yaml_document import Document, read_document
from loadtest.summary import Summary, summary_json

DEFAULT_GATES_FILE = Path(__file__).parent / "gates.yaml"

Verdict = Literal["go", "no-go", "invalid"]
Status = Literal["pass", "fail", "skip"]


class Gate(FileModel):
    """Hold one limit on one number of the summary."""

    id: Annotated[str, Field(min_length=1)]
    title: Annotated[str, Field(min_length=1)]
    kind: Literal["slo", "validity"]
    metric: str
    op: Literal[">=", "<="]
    limit: float
    why: str


class _GatesFile(FileModel):
    gates: tuple[Gate, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """Hold how one gate came out; the value is None when it could not be measured."""

    id: str
    title: str
    kind: str
    op: str
    limit: float
    value: float | None
    status: Status
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Hold the verdict and what led to it."""

    verdict: Verdict
    gates: tuple[GateResult, ...]

    @property
    def exit_code(self) -> int:
        """Give the exit code of the verdict."""
        return {"go": EXIT_GO, "no-go": EXIT_NO_GO, "invalid": EXIT_INVALID}[self.verdict]


def load_gates(path: Path = DEFAULT_GATES_FILE) -> tuple[Gate, ...]:
    """Read gates; raises ConfigError with all faults, unknown metrics and ids given twice too."""
    document = read_document(path)
    file, problems = validate(_GatesFile, document)
    if file is not None:
        problems = list(_faults(file.gates, document))
    if file is None or problems:
        raise ConfigError.of(problems)
    return file.gates


def judge(summary: Summary, gates: Sequence[Gate]) -> Judgement:
    """Compare each gate with the summary and decide."""
    figures = summary_json(summary)
    results = tuple(_result(gate, _value(figures, gate.metric)) for gate in gates)
    return Judgement(verdict=_verdict(results), gates=results)


def known_metrics() -> list[str]:
    """Name every number of the summary that a gate can limit."""
    return sorted(_numbers(Summary, ""))


def _faults(gates: Sequence[Gate], document: Document) -> Iterator[Problem]:
    known = known_metrics()
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        if gate.metric not in known:
            what = f"{gate.metric!r} is no number of the summary"
            fix = suggestion(gate.metric, known)
            yield document.problem(("gates", index, "metric"), what, fix)
        if gate.id in seen:
            what = f"the id {gate.id!r} is used twice"
            yield document.problem(("gates", index, "id"), what, "Give each gate its own id")
        seen.add(gate.id)


def _numbers(kind: type, prefix: str) -> Iterator[str]:
    hints = get_type_hints(kind)
    for entry in fields(kind):
        hint = hints[entry.name]
        choices = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if is_dataclass(hint) and isinstance(hint, type):
            yield from _numbers(hint, f"{prefix}{entry.name}.")
        elif {int, float} & set(choices):
            yield prefix + entry.name


def _value(figures: Mapping[str, Any], metric: str) -> float | None:
    value: Any = figures
    for part in metric.split("."):
        value = value[part]
    return None if value is None else float(value)


def _result(gate: Gate, value: float | None) -> GateResult:
    status: Status = "skip"
    if value is not None:
        reached = value >= gate.limit if gate.op == ">=" else value <= gate.limit
        status = "pass" if reached else "fail"
    return GateResult(
        id=gate.id,
        title=gate.title,
        kind=gate.kind,
        op=gate.op,
        limit=gate.limit,
        value=value,
        status=status,
        why=gate.why,
    )


def _verdict(results: Sequence[GateResult]) -> Verdict:
    failed = {result.kind for result in results if result.status == "fail"}
    if "validity" in failed:
        return "invalid"
    if "slo" in failed:
        return "no-go"
    return "invalid" if any(result.status == "skip" for result in results) else "go"
