"""Choose the tables that a command line is judged by.

An image says its versions, or not. A version without a table lies between two that
have one: what both refuse, it refuses. Without a version, what all refuse is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from fleet.engine_flags import engine_version
from fleet.flag_table import (
    TITLES,
    Flag,
    Flags,
    FlagTable,
    TableEngine,
    known_versions,
    load_table,
)
from fleet.flag_words import Grammar, Line, read_line

Engine = Literal["vllm", "sglang"]

# Which engine a program is or wraps; None: it computes nothing, or its engine has no table.
PROGRAM_ENGINES: Mapping[str, Engine | None] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "dynamo.vllm": "vllm",
    "dynamo.sglang": "sglang",
    "dynamo.trtllm": None,
    "dynamo.frontend": None,
    "dynamo.mocker": None,
}
# What a frontend takes besides its own flags, by the processor that it is told to use
# (`passthrough` in the tables).
_CHAT_PROCESSOR = "--dyn-chat-processor"
_CHAT_FLAGS = ("--tool-call-parser", "--reasoning-parser", "--chat-template")
# Keys of TensorRT-LLM's own settings: `--trtllm.kv_cache_config.dtype auto`.
TRTLLM_SETTINGS = "--trtllm."
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:\.?post\d+)?")


class Basis(NamedTuple):
    """The tables for one version, and what to call it."""

    tables: tuple[FlagTable, ...]  # newest first; empty: nothing is known
    name: str  # "vLLM 0.31.0"
    version: str | None  # None: not known
    certain: bool  # False: the version is older or newer than all tables


class Candidate(NamedTuple):
    """One pair of tables that may be what runs."""

    program: str
    engine: FlagTable | None
    dynamo: FlagTable | None

    @property
    def runs(self) -> str | None:
        """Name the engine that runs; None: the program computes nothing."""
        if self.program == "dynamo.trtllm":
            return "trtllm"
        return self.engine.engine if self.engine else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a command line is judged against."""

    program: str
    engine: Basis | None
    dynamo: Basis | None
    candidates: tuple[Candidate, ...]  # newest first

    @property
    def name(self) -> str:
        """Name it as people do: `vLLM 0.31.0`, `Dynamo 1.6.1 with vLLM 0.31.0`."""
        return " with ".join(basis.name for basis in self.bases)

    @property
    def bases(self) -> tuple[Basis, ...]:
        """Return what is known of its parts, Dynamo first."""
        return tuple(basis for basis in (self.dynamo, self.engine) if basis is not None)

    @property
    def certain(self) -> bool:
        """Say whether the tables include its versions, or some on both sides of them."""
        return all(basis.certain for basis in self.bases)

    @property
    def known(self) -> bool:
        """Say whether its versions are known."""
        return all(basis.version is not None for basis in self.bases)


@cache
def choose(program: str, engine_version: str | None, dynamo_version: str | None) -> Target | None:
    """Choose the tables for a program; None where none exist (TensorRT-LLM)."""
    if program not in PROGRAM_ENGINES:
        return None
    kind = PROGRAM_ENGINES[program]
    wraps = program.startswith("dynamo.")
    engine = basis(kind, engine_version) if kind else None
    dynamo = basis("dynamo", dynamo_version) if wraps else None
    pairs = product(
        engine.tables if engine else (None,),
        dynamo.tables if dynamo else (None,),
    )
    candidates = tuple(Candidate(program, *pair) for pair in pairs)
    return Target(program=program, engine=engine, dynamo=dynamo, candidates=candidates)


@cache
def basis(engine: TableEngine, version: str | None) -> Basis:
    """Choose the tables for one version of an engine."""
    title, known = TITLES[engine], known_versions(engine)
    if version is None or not known or _VERSION.fullmatch(version) is None:
        span = f" ({known[0]} to {known[-1]})" if known else ""
        return Basis(_load(engine, known), f"any known {title}{span}", None, certain=True)
    if version in known:
        return Basis(_load(engine, (version,)), f"{title} {version}", version, certain=True)
    wanted = engine_version(version)
    below = [name for name in known if engine_version(name) < wanted][-1:]
    above = [name for name in known if engine_version(name) > wanted][:1]
    used = (*below, *above)
    name = f"{title} {version} (judged by {' and '.join(used)})"
    return Basis(_load(engine, used), name, version, certain=len(used) > 1)


def _load(engine: TableEngine, versions: tuple[str, ...]) -> tuple[FlagTable, ...]:
    found = (load_table(engine, version) for version in reversed(versions))
    return tuple(table for table in found if table is not None)


def line_of(candidate: Candidate, words: Sequence[str]) -> Line:
    """Take a command line apart as a program's own parser does."""
    return read_line(words, grammar(candidate, _processor(candidate.program, words)))


def _processor(program: str, words: Sequence[str]) -> str | None:
    if program != "dynamo.frontend":
        return None
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == _CHAT_PROCESSOR:
            return value if equals else next(iter(words[index + 1 : index + 2]), None)
    return None


@cache
def grammar(candidate: Candidate, processor: str | None = None) -> Grammar:
    """Say what a program takes on its command line."""
    program, engine, dynamo = candidate
    vllm = engine is not None and engine.engine == "vllm"
    served = engine.parsers.get("serve", {}) if engine else {}
    if dynamo is None:
        return Grammar(own={}, passed=served, vllm=vllm, positional=1 if vllm else 0)
    own = dynamo.parsers.get(program.removeprefix("dynamo."), {})
    if program == "dynamo.trtllm":
        return Grammar(own={}, passed=own, vllm=False, positional=0, settings=TRTLLM_SETTINGS)
    if program == "dynamo.frontend":
        return Grammar(own=own, passed=_chat_flags(processor), vllm=False, positional=0)
    return Grammar(own=own, passed=_inside(served), vllm=vllm, positional=0)


def _inside(flags: Flags) -> Flags:
    return {name: flag for name, flag in flags.items() if not (flag.frontend or flag.positional)}


def _chat_flags(processor: str | None) -> Flags:
    """Give the newest flags that a frontend hands to its chat processor, as far as known."""
    if processor not in ("vllm", "sglang"):
        return {}
    found: dict[str, Flag] = {}
    for table in basis(processor, None).tables:
        for name, flag in table.parsers["serve"].items():
            if processor == "vllm" or name in _CHAT_FLAGS:
                found.setdefault(name, flag)
    return found
