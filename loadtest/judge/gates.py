"""Judge a summary by gates: go, no-go, or a measurement that cannot be judged.

A validity gate that fails makes the run invalid, whatever else it shows. Else a service gate that
fails makes it a no-go. Else a gate without a value makes it invalid: nobody can say go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, Strict

from fleet.errors import EXIT_GO, EXIT_INVALID, EXIT_NO_GO, ConfigError, Problem
from fleet.schema import FileModel, found_text, suggestion, validate
from fleet.yaml_document import Document, read_document
from loadtest.judge.metric_paths import is_metric, metric_value, near_metric
from loadtest.results.result_options import ServiceLevels
from loadtest.results.summary import Summary, summary_json
from loadtest.settings import LoadSettings

FOLDER = Path(__file__).parent
START = "Start with `extends: endpoint`, or with `gates:`; see docs/loadtest.md"
DEFAULT_GATES_FILE = FOLDER / "gates.yaml"
NAMED_GATES = {
    "rehearsal": DEFAULT_GATES_FILE,
    "endpoint": FOLDER / "gates-endpoint.yaml",
    "launch": FOLDER / "gates-launch.yaml",
    "drained": FOLDER / "gates-drained.yaml",
}

Verdict = Literal["go", "no-go", "invalid"]
Status = Literal["pass", "fail", "skip"]


class Gate(FileModel):
    """Hold one limit on one number of the summary."""

    id: Annotated[str, Field(min_length=1)]
    title: Annotated[str, Field(min_length=1)]
    kind: Literal["slo", "validity"]
    metric: str
    op: Literal[">=", "<="]
    limit: Annotated[float, Strict()]
    why: str
    only: Literal["open-loop", "closed-loop", "server-pages"] | None = None
    """The kind of run that a gate is about; None: any."""


class _GatesFile(FileModel):
    """One file of gates; with `extends` its gates replace those of the same id, or come after."""

    extends: str | None = None
    levels: ServiceLevels | None = None
    """What a request has to meet to be goodput."""
    without: tuple[str, ...] = ()
    """Ids of the other file's gates that are left out."""
    real_scale: bool | None = None
    """Meant for real lengths and pauses; a file that extends another takes what it says."""
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSet:
    """Hold gates, and what a request has to meet to be goodput; None: what the run was told."""

    gates: tuple[Gate, ...]
    levels: ServiceLevels | None = None
    name: str = ""
    """Of a set of ours, or the path of its file."""
    real_scale: bool = False
    """Whether they are meant for traffic whose lengths and pauses are real."""


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
    return load_gate_set(path).gates


def load_gate_set(path: Path) -> GateSet:
    """Read gates and the service levels of goodput; raises ConfigError with all faults."""
    return _load(path, frozenset())


def _load(path: Path, within: frozenset[Path]) -> GateSet:
    document = read_document(path, start=START)
    file, problems = validate(_GatesFile, document)
    if file is None or problems:
        raise ConfigError.of(problems)
    extended = _extended(file, document, within | {path.resolve()})
    if problems := list(_faults(file, extended.gates, document)):
        raise ConfigError.of(problems)
    own = {gate.id: gate for gate in file.gates}
    kept = [own.pop(gate.id, gate) for gate in extended.gates if gate.id not in file.without]
    ours = {file: name for name, file in NAMED_GATES.items()}
    real_scale = extended.real_scale if file.real_scale is None else file.real_scale
    return GateSet(
        gates=(*kept, *own.values()),
        levels=file.levels or extended.levels,
        name=ours.get(path, str(path)),
        real_scale=real_scale,
    )


def _extended(file: _GatesFile, document: Document, within: frozenset[Path]) -> GateSet:
    if file.extends is None:
        return GateSet(gates=())
    path = gates_file(file.extends, beside=Path(document.file))
    if path.resolve() in within:
        what = f"{found_text(file.extends)} extends this file, directly or through others"
        raise ConfigError.of([document.problem(("extends",), what, "Leave one of them out")])
    return _load(path, within)


def gates_file(name: str, *, beside: Path | None = None) -> Path:
    """Find gates by the name of a set of ours, or as a file; raises ConfigError for neither."""
    if name in NAMED_GATES:
        return NAMED_GATES[name]
    path = Path(name) if beside is None else beside.parent / name
    if not path.is_file():
        fix = suggestion(name, NAMED_GATES)
        raise ConfigError(f"{found_text(name)}: is no file and no set of gates. {fix}.")
    return path


def about(gates: Sequence[Gate], settings: LoadSettings) -> tuple[Gate, ...]:
    """Choose the gates that are about a run: about how load was made, and what was read."""
    kinds = {None, "open-loop" if settings.is_open_loop else "closed-loop"}
    if settings.results.metrics:
        kinds.add("server-pages")
    return tuple(gate for gate in gates if gate.only in kinds)


def judge(summary: Summary, gates: Sequence[Gate]) -> Judgement:
    """Compare each gate with the summary and decide."""
    figures = summary_json(summary)
    results = tuple(
        _result(gate, metric_value(figures, gate.metric, min if gate.op == ">=" else max))
        for gate in gates
    )
    return Judgement(verdict=_verdict(results), gates=results)


def _faults(file: _GatesFile, extended: Sequence[Gate], document: Document) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, gate in enumerate(file.gates):
        if not is_metric(gate.metric):
            what = f"{found_text(gate.metric)} is no number of the summary"
            yield document.problem(("gates", index, "metric"), what, near_metric(gate.metric))
        if gate.id in seen:
            what = f"the id {gate.id!r} is used twice"
            yield document.problem(("gates", index, "id"), what, "Give each gate its own id")
        seen.add(gate.id)
    known = {gate.id for gate in extended}
    for index, identity in enumerate(file.without):
        if identity not in known:
            what = f"{found_text(identity)} is no gate of what this file extends"
            fix = suggestion(identity, known) if known else "Leave it out"
            yield document.problem(("without", index), what, fix)
    if not file.gates and not extended:
        yield document.problem(("gates",), "no gate is given", "Give at least one")


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
