"""Check the command line of an engine or a frontend against what its version knows.

Pure: words and variables come in, faults go out. What holds a `$` is only known when
the pod runs, so it is not judged. `fleet/flag_words.py` reads the line,
`fleet/flag_target.py` chooses the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from fleet.flag_bounds import bound_faults
from fleet.flag_env import env_faults
from fleet.flag_fault import Fault, Kind
from fleet.flag_pairs import pair_faults
from fleet.flag_spelling import meaning, value_owner, versions_text
from fleet.flag_table import TITLES, FlagTable, tables
from fleet.flag_target import Candidate, Target, choose, line_of
from fleet.flag_values import Configs, WrongValue, wrong_key_text, wrong_text
from fleet.flag_words import Given, Use

_HELP = frozenset({"-h", "--help"})
# Values that a wrapper adds to a flag of its engine (`passthrough` in the tables).
_ADDED = {("dynamo.sglang", "--load-format", "gms")}
# Flags that make names known which no table can have.
_PLUGINS = {
    "--tool-call-parser": "--tool-parser-plugin",
    "--reasoning-parser": "--reasoning-parser-plugin",
}
# What a version refuses, as opposed to what it advises against.
_REFUSALS: frozenset[Kind] = frozenset(
    {"unknown", "version", "choice", "type", "key", "spelling", "scope", "left"}
)
_CACHED = 4096

Env = tuple[tuple[str, str | None], ...]


class Versions(NamedTuple):
    """What runs, as far as it is known."""

    engine: str | None
    dynamo: str | None


@lru_cache(maxsize=_CACHED)
def check(program: str, words: tuple[str, ...], env: Env, versions: Versions) -> tuple[Fault, ...]:
    """Find what a program, in its version, does not take.

    `env` holds the variables in order; None stands for a value that is not known.
    A fault of a program whose version is not known is one that every version has.
    """
    target = choose(program, *versions)
    if target is None or not all(basis.tables for basis in target.bases):
        return ()
    newest, *others = target.candidates
    found = list(_faults(target, newest, words, env, explain=True))
    for candidate in others:
        if not found:
            break
        keys = {_key(fault) for fault in _faults(target, candidate, words, env, explain=False)}
        found = [fault for fault in found if _key(fault) in keys]
    if not target.known:
        found = [fault for fault in found if fault.kind != "deprecated"]
    sure = target.certain
    return tuple(fault if sure else fault._replace(certain=False) for fault in _once(found))


def _once(found: list[Fault]) -> Iterator[Fault]:
    """Drop what a flag that is given twice says a second time."""
    yield from dict.fromkeys(found)


def _key(fault: Fault) -> tuple[object, ...]:
    kind = "refused" if fault.kind in _REFUSALS else fault.kind
    return kind, fault.place, fault.subject


def _faults(
    target: Target, candidate: Candidate, words: Sequence[str], env: Env, *, explain: bool
) -> Iterator[Fault]:
    line = line_of(candidate, words)
    judge = _Judge(target, candidate, {use.name for use in line.uses}, explain)
    for use in line.uses:
        if use.spelled not in _HELP:
            yield from judge.faults(use)
    yield from _twice(line.uses)
    for word in line.left:
        yield _left(word, target)
    yield from bound_faults(target.program, line.uses)
    yield from pair_faults(target, candidate, line.uses, env)
    yield from env_faults(target, candidate, env, explain=explain)


def _left(word: Given, target: Target) -> Fault:
    if word.text.startswith("-"):
        fix = "Give the flag and its value as two words"
        return Fault("left", word.place, word.text, f"{word.text!r} is one word", fix)
    what = f"{word.text!r} belongs to no flag"
    return Fault("left", word.place, word.text, what, "Drop it, or name the flag it is for")


def _twice(uses: Sequence[Use]) -> Iterator[Fault]:
    once = [use for use in uses if use.flag and not use.flag.repeats and not use.key]
    count = Counter(id(use.flag) for use in once)
    seen: set[int] = set()
    for use in once:
        if count[id(use.flag)] > 1 and id(use.flag) in seen:
            what = f"{use.name} is given {count[id(use.flag)]} times, the last one wins"
            yield Fault("twice", use.index, use.name, what, "Keep one of them")
        seen.add(id(use.flag))


class _Judge(NamedTuple):
    """Judges each use of a flag by one pair of tables."""

    target: Target
    candidate: Candidate
    given: set[str]  # all flags of the line
    explain: bool  # False: only whether something is wrong, not what may be meant

    def faults(self, use: Use) -> Iterator[Fault]:
        """Yield what is wrong with one use of a flag."""
        flag, where = use.flag, self.target.name
        if flag is None:
            yield self._unknown(use)
            return
        if use.abbreviated:
            yield Fault(
                "abbreviation",
                use.index,
                use.name,
                f"{use.spelled} stands for {use.name} only as long as no other flag starts so",
                f"Write {use.name}",
            )
        if flag.removed:
            what = f"{use.name} ends the start of {where}"
            yield Fault("version", use.index, use.name, what, flag.note or f"Drop {use.name}")
            return
        yield from self._deprecated(use)
        for wrong in self._wrong(use):
            yield self._value_fault(use, wrong)

    def _unknown(self, use: Use) -> Fault:
        if use.meant:
            listed = " or ".join(use.meant[:4])
            what = f"{use.spelled} may stand for {listed}"
            return Fault("unknown", use.index, use.name, what, "Write the flag in full")
        if not self.explain:
            return Fault("unknown", use.index, use.name, "", "")
        found = meaning(use.name, self.candidate, self.target.name)
        fix = found.fix or _UNKNOWN_FIXES.get(found.kind, f"Drop {use.spelled}")
        return Fault(found.kind, use.index, use.name, f"{use.spelled} {found.what}", fix)

    def _deprecated(self, use: Use) -> Iterator[Fault]:
        flag = use.flag
        if flag is None:
            return
        old = flag.old_name
        if old and use.name in (old, old.replace("--", "--no-", 1)):
            instead = f"Use {(flag.negative if use.negated else flag.names)[0]}"
        # A switch that will go is best switched off already.
        elif flag.deprecated and not use.negated:
            instead = f"Use {flag.replacement}" if flag.replacement else f"Drop {use.name}"
        else:
            return
        note = f" ({flag.note})" if flag.note else ""
        what = f"{use.name} is deprecated in {self.target.name}{note}"
        yield Fault("deprecated", use.index, use.name, what, instead)

    def _wrong(self, use: Use) -> Iterator[WrongValue]:
        flag, values = use.flag, use.values
        if flag is None:
            return
        if use.key:
            text = values[0].text if values and not values[0].is_open else None
            if not values:
                yield WrongValue("type", "needs a value")
            yield from wrong_key_text(flag.domain.config, use.key, text, self._configs)
        elif flag.nargs == 0:
            if use.inline:
                yield WrongValue("type", "takes no value")
        elif use.inline and not flag.inline:
            yield WrongValue("type", "takes its value as a word of its own")
        elif not values and flag.nargs not in ("?", "*"):
            yield WrongValue("type", "needs a value")
        elif _PLUGINS.get(use.name) not in self.given:
            for value in values:
                if not value.is_open and not self._is_added(use.name, value.text):
                    yield from wrong_text(flag.domain, value.text, self._configs)

    def _is_added(self, name: str, value: str) -> bool:
        return (self.target.program, name, value) in _ADDED

    @property
    def _configs(self) -> Configs:
        return self.candidate.engine.configs if self.candidate.engine else {}

    def _value_fault(self, use: Use, wrong: WrongValue) -> Fault:
        kind: Kind = wrong.kind
        what = f"{use.name} {wrong.what}" if not wrong.key else f"{use.name}: {wrong.what}"
        fix = f"Use {wrong.near}" if wrong.near else _VALUE_FIXES[wrong.kind]
        owners = self._other_versions(use, wrong) if self.explain else None
        if owners:
            kind, what = "version", f"{what}; {owners} would"
            fix = _UNKNOWN_FIXES["version"]
        elif wrong.kind == "choice" and self.candidate.engine and not wrong.key and self.explain:
            whose = value_owner(use.name, wrong.found, self.candidate.engine.engine)
            what = f"{what}; {wrong.found} is {whose}'s" if whose else what
        return Fault(
            kind,
            use.index,
            f"{use.name} {wrong.key}".strip(),
            f"{what} in {self.target.name}" if wrong.kind in ("key", "deprecated") else what,
            fix,
            wrong.certain or kind == "version",
        )

    def _other_versions(self, use: Use, wrong: WrongValue) -> str | None:
        """Name the versions of the same program that take a wrong choice or key."""
        if wrong.kind not in ("choice", "key") or not wrong.found:
            return None
        for mine in (self.candidate.engine, self.candidate.dynamo):
            if mine is None:
                continue
            found = [
                other.version for other in tables(mine.engine) if self._takes(other, use, wrong)
            ]
            if found:
                return f"{TITLES[mine.engine]} {versions_text(found, mine.engine)}"
        return None

    def _takes(self, other: FlagTable, use: Use, wrong: WrongValue) -> bool:
        part = "serve"
        if other.engine == "dynamo":
            part = self.target.program.removeprefix("dynamo.")
        flag = other.parsers.get(part, {}).get(use.name)
        if flag is None:
            return False
        if wrong.kind == "choice" and not wrong.key:
            return wrong.found in flag.domain.choices
        keys = other.configs.get(flag.domain.config or "", {})
        if wrong.kind == "key":
            return wrong.found in keys and not keys[wrong.found].internal
        return wrong.key in keys and wrong.found in keys[wrong.key].domain.choices


_UNKNOWN_FIXES: dict[Kind, str] = {
    "version": "Drop it, or use a version that takes it",
    "unknown": "Drop it, or look up its name in the engine's --help",
}
_VALUE_FIXES: dict[Literal["choice", "type", "key", "deprecated"], str] = {
    "choice": "Use one of the values that it takes",
    "type": "Correct the value",
    "key": "Drop the key",
    "deprecated": "Drop the key",
}
