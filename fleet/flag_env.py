"""Check environment variables against what an engine and Dynamo read.

vLLM only warns of a variable that it does not know, SGLang and Dynamo ignore it in
silence: whoever set it believes that it does something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleet.flag_fault import Fault, Kind
from fleet.flag_spelling import versions_text
from fleet.flag_table import TITLES, FlagTable, TableEngine, Variable, tables
from fleet.flag_target import Candidate, Target
from fleet.flag_values import nearest, wrong_text

_PREFIXES: Mapping[str, TableEngine] = {"VLLM_": "vllm", "SGLANG_": "sglang", "DYN_": "dynamo"}


def env_faults(
    target: Target, candidate: Candidate, env: Sequence[tuple[str, str | None]], *, explain: bool
) -> Iterator[Fault]:
    """Yield what is wrong with the variables of an engine or of Dynamo.

    Without `explain` the texts of unknown variables say less: looking for what may be
    meant takes long.
    """
    for name, value in env:
        prefix = next((known for known in _PREFIXES if name.startswith(known)), None)
        if prefix is None:
            continue
        mine = _tables(candidate)
        variable = next((t.variables[name] for t in mine if name in t.variables), None)
        if variable is not None:
            yield from _known(target, variable, value, mine)
        elif not any(table.reads(name) for table in mine):
            fault = _unknown(target, candidate, name, _PREFIXES[prefix], explain=explain)
            if fault is not None:
                yield fault


def _tables(candidate: Candidate) -> list[FlagTable]:
    return [table for table in (candidate.engine, candidate.dynamo) if table is not None]


def _known(
    target: Target, variable: Variable, value: str | None, mine: Sequence[FlagTable]
) -> Iterator[Fault]:
    if variable.deprecated:
        instead = f"Use {variable.replacement}" if variable.replacement else "Drop it"
        what = f"{variable.name} is deprecated in {target.name}"
        yield Fault("deprecated", None, variable.name, what, instead)
    # Only vLLM ends at a wrong value; the others take their default.
    if not variable.name.startswith("VLLM_") or not value or "$" in value:
        return
    if variable.domain.choices or variable.domain.type in ("int", "float"):
        for wrong in wrong_text(variable.domain, value, {}):
            fix = f"Use {wrong.near}" if wrong.near else "Correct the value"
            kind: Kind = "choice" if wrong.kind == "choice" else "type"
            what = f"{variable.name} {wrong.what}"
            yield Fault(kind, None, variable.name, what, fix, wrong.certain)


def _unknown(
    target: Target, candidate: Candidate, name: str, engine: TableEngine, *, explain: bool
) -> Fault | None:
    mine = next((table for table in _tables(candidate) if table.engine == engine), None)
    if mine is None:
        return _of_another_engine(candidate, name, engine)
    title = TITLES[engine]
    read = [other.version for other in tables(engine) if other.reads(name)]
    if read:
        where = f"{title} {versions_text(read, engine)}"
        what = f"{name} does nothing in {target.name}, only in {where}"
        return Fault("env_version", None, name, what, _instead(name, mine))
    known = [item.name for item in mine.variables.values() if not item.uncertain]
    near = nearest(name, known) if explain else None
    part = target.dynamo if engine == "dynamo" else target.engine
    label = part.name if part else title
    what = f"{name} is no variable that {label} reads"
    fix = f"Did you mean {near}?" if near else "Drop it, or say in a waiver which patch reads it"
    return Fault("env_unknown", None, name, what, fix)


def _of_another_engine(candidate: Candidate, name: str, engine: TableEngine) -> Fault | None:
    """Judge a variable of an engine that does not run here."""
    if candidate.runs is None:  # a frontend may load any engine's parsers
        return None
    if engine == "dynamo":  # `vllm serve` under a wrapper of Dynamo's
        return None
    what = f"{name} is a variable of {TITLES[engine]}, which does not run here"
    return Fault("env_unknown", None, name, what, "Drop it")


def _instead(name: str, mine: FlagTable) -> str:
    """Name the flag that took a variable's place."""
    tail = name.partition("_")[2].lower().replace("_", "-")
    flag = f"--{tail}"
    if any(flag in flags for flags in mine.parsers.values()):
        return f"Use {flag}"
    return "Drop it, or use a version that reads it"
