"""Read which flags, values and variables each version of an engine knows.

The tables come with the package, one per version, made from the published wheels by
`k3fleet flags update`. A flag's name leads to its row, whatever its spelling.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from fleet.engine_flags import engine_version

TableEngine = Literal["vllm", "sglang", "dynamo"]
TITLES: Mapping[str, str] = {"vllm": "vLLM", "sglang": "SGLang", "dynamo": "Dynamo"}
TABLES = Path(__file__).parent / "flag_tables"
_ENDING = ".json.gz"

# Flags whose values are names of a registry: no parser enforces them, the start does.
_REGISTRIES: Mapping[str, str] = {
    "--tool-call-parser": "tool_call_parsers",
    "--dyn-tool-call-parser": "tool_call_parsers",
    "--reasoning-parser": "reasoning_parsers",
    "--dyn-reasoning-parser": "reasoning_parsers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The values that a flag, a key of a JSON value or a variable may have."""

    type: str  # as the table names it: int, human_int, json, …
    choices: tuple[str, ...] = ()  # empty: not listed
    # False: the engine takes others too (plugins), or the same names in any case.
    closed: bool = True
    config: str | None = None  # the class whose keys a JSON value may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of a command line, with all its spellings."""

    names: tuple[str, ...]
    negative: tuple[str, ...] = ()  # spellings that switch it off
    domain: Domain
    nargs: int | str | None = None  # None: one value; 0: none; `?`, `*`, `+` as in argparse
    positional: bool = False
    repeats: bool = False  # each use adds a value
    inline: bool = True  # `--flag=value` is as good as two words
    frontend: bool = False  # vLLM: of `vllm serve`, not of the engine inside
    deprecated: bool = False
    removed: bool = False  # still parsed, then the start fails
    replacement: str | None = None
    note: str | None = None
    old_name: str | None = None  # a spelling that will go


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a JSON value."""

    domain: Domain
    internal: bool = False  # the engine sets it
    deprecated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable."""

    name: str
    domain: Domain
    deprecated: bool = False
    replacement: str | None = None
    uncertain: bool = False  # cut out of a binary; its end may be wrong


Flags = Mapping[str, Flag]  # by every spelling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlagTable:
    """What one version knows. `parsers` holds one set of flags per program.

    vLLM and SGLang have one program, `serve`; Dynamo has `frontend`, `vllm`, `sglang`
    and `mocker`, whose workers pass what is not theirs on to the engine.
    """

    engine: TableEngine
    version: str
    parsers: Mapping[str, Flags]
    configs: Mapping[str, Mapping[str, Key]]
    variables: Mapping[str, Variable]
    elsewhere: frozenset[str]  # variables that are read in places outside the engine's own list
    families: tuple[str, ...]  # how variables start whose end is made up at run time
    uncertain: tuple[str, ...]  # variables whose end may not be part of the name

    def reads(self, name: str) -> bool:
        """Say whether the version reads a variable, as far as anyone can tell."""
        return (
            name in self.variables
            or name in self.elsewhere
            or name.startswith(self.families)
            or any(known.startswith(name) for known in self.uncertain)
        )


@cache
def known_versions(engine: TableEngine) -> tuple[str, ...]:
    """List the versions that have a table, oldest first."""
    names = (file.name for file in TABLES.glob(f"{engine}-*{_ENDING}"))
    versions = (name.removeprefix(f"{engine}-").removesuffix(_ENDING) for name in names)
    return tuple(sorted(versions, key=engine_version))


@cache
def load_table(engine: TableEngine, version: str) -> FlagTable | None:
    """Read the table of a version, None when there is none."""
    if version not in known_versions(engine):
        return None
    text = gzip.decompress((TABLES / f"{engine}-{version}{_ENDING}").read_bytes())
    return parse_table(json.loads(text))


def tables(engine: TableEngine) -> Iterator[FlagTable]:
    """Yield every table of an engine, newest first."""
    for version in reversed(known_versions(engine)):
        table = load_table(engine, version)
        if table is not None:
            yield table


def parse_table(raw: Mapping[str, Any]) -> FlagTable:
    """Take a table as its file has it."""
    registries = raw.get("registries", {})
    variables = {row["name"]: _variable(row) for row in raw.get("env", ())}
    elsewhere = frozenset(raw.get("env_elsewhere", ()))
    programs = {name: part["flags"] for name, part in raw.get("components", {}).items()}
    if "flags" in raw:
        programs["serve"] = raw["flags"]
    return FlagTable(
        engine=raw["engine"],
        version=raw["version"],
        parsers={name: _flags(rows, registries) for name, rows in programs.items()},
        configs={
            name: {key: _key(row) for key, row in keys.items()}
            for name, keys in raw.get("configs", {}).items()
        },
        variables=variables,
        elsewhere=elsewhere,
        families=tuple(sorted(name for name in elsewhere if name.endswith("_"))),
        uncertain=tuple(name for name, row in variables.items() if row.uncertain),
    )


def _flags(rows: list[dict[str, Any]], registries: Mapping[str, list[str]]) -> Flags:
    flags = [_flag(row, registries) for row in rows]
    return {name: flag for flag in flags for name in flag.names + flag.negative}


def _flag(row: Mapping[str, Any], registries: Mapping[str, list[str]]) -> Flag:
    domain = _domain(row)
    registry = next((_REGISTRIES[name] for name in row["flags"] if name in _REGISTRIES), None)
    if registry is not None and registry in registries and not domain.choices:
        domain = Domain(type="registry", choices=tuple(registries[registry]))
    return Flag(
        names=tuple(row["flags"]),
        negative=tuple(row.get("negative_flags", ())),
        domain=domain,
        nargs=row.get("nargs"),
        positional=row.get("positional", False),
        repeats=row.get("action") == "append",
        frontend=row.get("scope") == "frontend",
        deprecated=row.get("deprecated", False),
        removed=row.get("removed", False),
        replacement=row.get("replacement"),
        note=row.get("note"),
        old_name=row.get("obsolete_alias"),
    )


def _key(row: Mapping[str, Any]) -> Key:
    return Key(
        domain=_domain(row),
        internal=row.get("internal", False),
        deprecated=row.get("deprecated", False),
    )


def _variable(row: Mapping[str, Any]) -> Variable:
    return Variable(
        name=row["name"],
        domain=_domain(row),
        deprecated=row.get("deprecated", False),
        replacement=row.get("replacement"),
        uncertain=row.get("uncertain", False),
    )


def _domain(row: Mapping[str, Any]) -> Domain:
    enforced = row.get("choices") or ()
    return Domain(
        type=row.get("type") or "str",
        choices=tuple(map(str, enforced or row.get("known_values") or ())),
        closed=bool(enforced) and not row.get("choices_open", False),
        config=row.get("config"),
    )
