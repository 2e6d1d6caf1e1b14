"""Find out what an unknown flag means: another version's, another engine's, a misspelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from fleet.engine_flags import FIELD_FLAGS
from fleet.flag_table import TITLES, Flag, FlagTable, TableEngine, known_versions, tables
from fleet.flag_target import Candidate, grammar
from fleet.flag_values import nearest
from fleet.flag_words import Grammar

_HERE: Mapping[str, str] = {"serve": "", "frontend": "'s frontend", "mocker": "'s mocker"}

# Flags that mean the same and are called otherwise, besides those that typed fields write.
_SAME_FLAGS: tuple[Mapping[str, str], ...] = (
    {"vllm": "--model", "sglang": "--model-path"},
    {"vllm": "--master-addr", "sglang": "--dist-init-addr"},
    {"vllm": "--pipeline-parallel-size", "sglang": "--pp-size"},
    {"vllm": "--data-parallel-size", "sglang": "--dp-size"},
    {"vllm": "--enable-expert-parallel", "sglang": "--ep-size", "trtllm": "--expert-parallel-size"},
    {"vllm": "--moe-backend", "sglang": "--moe-runner-backend"},
    {"vllm": "--all2all-backend", "sglang": "--moe-a2a-backend"},
    {"vllm": "--speculative-config", "sglang": "--speculative-algorithm"},
    {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"},
    {"vllm": "--no-enable-prefix-caching", "sglang": "--disable-radix-cache"},
    {"vllm": "--no-enable-flashinfer-autotune", "sglang": "--disable-flashinfer-autotune"},
    {"vllm": "--max-cudagraph-capture-size", "sglang": "--cuda-graph-max-bs-decode"},
    {"vllm": "--enable-log-requests", "sglang": "--log-requests"},
    {"vllm": "--decode-context-parallel-size", "sglang": "--dcp-size"},
)
# What Dynamo's workers have instead of flags of `vllm serve`.
_WORKER_FLAGS: Mapping[str, str] = {
    "--tool-call-parser": "Use --dyn-tool-call-parser",
    "--enable-auto-tool-choice": "Drop it; --dyn-tool-call-parser alone switches tool calls on",
    "--chat-template": "Use --custom-jinja-template",
}


class Meaning(NamedTuple):
    """What a flag that the program does not know is."""

    kind: Literal["unknown", "version", "spelling", "scope"]
    what: str  # follows the flag's name
    fix: str | None


def meaning(name: str, candidate: Candidate, target: str) -> Meaning:
    """Say what an unknown flag is, by the tables of all versions and engines."""
    known = grammar(candidate)
    return (
        _of_another_version(name, candidate, known, target)
        or _of_another_program(name, candidate, target)
        or _of_another_engine(name, candidate, known, target)
        or _unknown(name, known, target)
    )


def versions_text(versions: list[str], engine: TableEngine) -> str:
    """Name versions as ranges: `0.26.0 to 0.28.0, 0.33.0`."""
    order = known_versions(engine)
    runs: list[list[str]] = []
    for version in order:
        if version not in versions:
            continue
        if runs and order.index(runs[-1][-1]) + 1 == order.index(version):
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _of_another_version(
    name: str, candidate: Candidate, known: Grammar, target: str
) -> Meaning | None:
    for table in (candidate.engine, candidate.dynamo):
        if table is None:
            continue
        found = {
            other.version: flag
            for other in tables(table.engine)
            if (flag := _flag_in(name, candidate, other)) is not None
        }
        if found:
            where = f"{TITLES[table.engine]} {versions_text(list(found), table.engine)}"
            texts = (_instead(name, flag, known) for flag in found.values())
            fix = next((text for text in texts if text), None)
            return Meaning("version", f"does not exist in {target}, only in {where}", fix)
    return None


def _flag_in(name: str, candidate: Candidate, other: FlagTable) -> Flag | None:
    """Find a flag that the same program with another version would take."""
    if other.engine == "dynamo":
        part = candidate.program.removeprefix("dynamo.")
        return other.parsers.get(part, {}).get(name)
    found = other.parsers["serve"].get(name)
    wrapped = candidate.dynamo is not None
    return None if found is None or (wrapped and found.frontend) else found


def _instead(name: str, flag: Flag, known: Grammar) -> str | None:
    """Name the flag of this version that does the same."""
    if flag.replacement:
        return f"Use {flag.replacement}"
    for other in (*flag.names, *flag.negative):
        here = known.passed.get(other) or known.own.get(other)
        if here is None:
            continue
        if name in flag.names:
            return f"Use {here.names[0]}"
        return f"Use {here.negative[0]}" if here.negative else f"Drop {name}"
    return None


def _of_another_program(name: str, candidate: Candidate, target: str) -> Meaning | None:
    if candidate.dynamo is None:
        return None
    kind = candidate.program.removeprefix("dynamo.")
    if candidate.engine is not None:
        flag = candidate.engine.parsers["serve"].get(name)
        if flag is not None and flag.frontend:
            fix = _WORKER_FLAGS.get(name, "Drop it: Dynamo's frontend serves the requests")
            return Meaning("scope", f"is a flag of vllm serve, not of {target}", fix)
    for part in ("frontend", "vllm", "sglang"):
        if part != kind and any(name in table.parsers.get(part, {}) for table in tables("dynamo")):
            fix = f"Move it to dynamo.{part}"
            return Meaning("scope", f"is a flag of dynamo.{part}, not of {target}", fix)
    if candidate.runs is None:
        for engine in ("vllm", "sglang"):
            if any(name in table.parsers["serve"] for table in _all(engine)):
                fix = "Move it to the worker"
                return Meaning("scope", f"is a flag of {TITLES[engine]}, not of {target}", fix)
    return None


def _of_another_engine(
    name: str, candidate: Candidate, known: Grammar, target: str
) -> Meaning | None:
    mine = candidate.runs
    if mine is None:
        return None
    for engine in ("vllm", "sglang", "dynamo"):
        if engine == mine or (engine == "dynamo" and candidate.dynamo):
            continue
        if any(name in flags for table in _all(engine) for flags in table.parsers.values()):
            whose = "Dynamo's workers" if engine == "dynamo" else TITLES[engine]
            ours = _same_flag(name, engine, mine) or nearest(name, list(known.passed))
            fix = f"Use {ours}" if ours in known.passed else None
            return Meaning("spelling", f"is a flag of {whose}, not of {target}", fix)
    return None


def _same_flag(name: str, theirs: str, mine: str) -> str | None:
    typed = (
        {theirs: flag, mine: FIELD_FLAGS.get(mine, {}).get(field, "")}
        for field, flag in FIELD_FLAGS.get(theirs, {}).items()
    )
    rows = (*typed, *_SAME_FLAGS)
    return next((row[mine] for row in rows if row.get(theirs) == name and row.get(mine)), None)


def _unknown(name: str, known: Grammar, target: str) -> Meaning:
    near = nearest(name, [*known.own, *known.passed])
    fix = f"Did you mean {near}?" if near else None
    return Meaning("unknown", f"is not a flag of {target}", fix)


def _all(engine: str) -> Iterator[FlagTable]:
    match engine:
        case "vllm" | "sglang" | "dynamo":
            yield from tables(engine)


@cache
def value_owner(name: str, value: str, mine: TableEngine) -> str | None:
    """Name another engine whose flag of the same name takes a value."""
    for engine in ("vllm", "sglang"):
        if engine == mine:
            continue
        for table in _all(engine):
            flag = table.parsers["serve"].get(name)
            if flag is not None and value in flag.domain.choices:
                return TITLES[engine]
    return None
