"""Read the cases of the linter's rules, and lint one.

A case is data: manifests, or changes of a good base, and what must be found in them.
See tests/cases/lint/*.yaml; `from: lws` names a file in tests/cases/lint/bases.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from fleet.load import load_hardware, load_model
from infra.lint.manifest import Manifest
from infra.lint.reading import parse_manifests
from infra.lint.rule import Finding, Rule
from infra.lint.ruleset import RULES
from infra.lint.scene import Scene

FOLDER = Path(__file__).parents[1] / "cases" / "lint"
SHOWN = ("line", "path", "object", "what", "fix", "severity")
_KEYS = {"name", "manifests", "from", "set", "finds", "also", "kubernetes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Manifests, and what one rule finds in them."""

    rule: str
    name: str
    manifests: str | None  # YAML text
    base: str | None  # else: a file of bases, and changes of it
    changes: Mapping[str, object]
    finds: tuple[Mapping[str, object], ...]
    also: frozenset[str]  # rules that speak, too, because one change breaks both
    kubernetes: tuple[int, int]

    def __str__(self) -> str:
        """Name the case in pytest's output."""
        return f"{self.rule}: {self.name}"


def read_cases() -> list[Case]:
    """Read all cases, in order of their rules."""
    return [case for path in sorted(FOLDER.glob("*.yaml")) for case in _file_cases(path)]


def _file_cases(path: Path) -> list[Case]:
    data = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    assert data["rule"].lower() == path.stem, f"{path}: the file is named after its rule"
    return [_case(data["rule"], item, path) for item in data["cases"]]


def _case(rule: str, item: dict[str, Any], path: Path) -> Case:
    assert not item.keys() - _KEYS, f"{path}: unknown keys {item.keys() - _KEYS}"
    assert ("manifests" in item) != ("from" in item), f"{path}: {item['name']}: give one of both"
    major, _, minor = str(item.get("kubernetes", "1.37")).partition(".")
    return Case(
        rule=rule,
        name=item["name"],
        manifests=item.get("manifests"),
        base=item.get("from"),
        changes=item.get("set", {}),
        finds=tuple(item["finds"]),
        also=frozenset(item.get("also", ())),
        kubernetes=(int(major), int(minor)),
    )


@functools.cache
def base(name: str) -> tuple[Manifest, ...]:
    """Read a good base."""
    return _parsed((FOLDER / "bases" / f"{name}.yaml").read_text(encoding="utf-8"), name)


def manifests_of(case: Case) -> tuple[Manifest, ...]:
    """Give the objects of a case."""
    if case.base is None:
        return _parsed(case.manifests or "", "case.yaml")
    found = list(base(case.base))
    for change, value in case.changes.items():
        number, path = _place(change)
        data = copy.deepcopy(found[number].data)
        change_at(data, path, value)
        found[number] = replace(found[number], data=data)
    return tuple(found)


def _parsed(text: str, file: str) -> tuple[Manifest, ...]:
    manifests, problems = parse_manifests(text.encode(), file)
    assert not problems, "\n".join(map(str, problems))
    return tuple(manifests)


def _place(change: str) -> tuple[int, str]:
    """Split `1:spec.x` into a document's number and a path in it."""
    found = re.match(r"(\d+):", change)
    return (int(found[1]), change[found.end() :]) if found else (0, change)


def change_at(data: object, path: str, value: object) -> None:
    """Set what stands at a path, or delete it (None); `[+]` appends to a list."""
    parts = split_path(data, path)
    for part in parts[:-1]:
        if isinstance(data, dict) and data.get(part) is None:
            data[part] = {}
        data = data[part]  # type: ignore[index]
    last = parts[-1]
    if value is None:
        del data[last]  # type: ignore[attr-defined]
    elif last == "+":
        data.append(copy.deepcopy(value))  # type: ignore[attr-defined]
    else:
        data[last] = copy.deepcopy(value)  # type: ignore[index]


def split_path(data: object, path: str) -> list[str | int]:
    """Split a path; a key with dots counts whole where the object has it, or in `["…"]`."""
    parts: list[str | int] = []
    while path:
        path = path.removeprefix(".")
        if found := re.match(r'\["([^"]*)"\]|\[(\d+)\]|\[(\+)\]', path):
            part: str | int = int(found[2]) if found[2] else found[1] or found[3]
            path = path[found.end() :]
        else:
            known = data if isinstance(data, dict) else {}
            whole = [key for key in known if re.match(re.escape(key) + r"(?![^.\[])", path)]
            part = max(whole, key=len) if whole else re.split(r"[.\[]", path, maxsplit=1)[0]
            path = path[len(part) :]
        parts.append(part)
        data = _below(data, part)
    return parts


def _below(data: object, part: str | int) -> object:
    if isinstance(data, dict):
        return data.get(part)
    if isinstance(data, list) and isinstance(part, int) and part < len(data):
        return data[part]
    return None


def lint_all(manifests: tuple[Manifest, ...], kubernetes: tuple[int, int]) -> list[Finding]:
    """Run every rule."""
    return _lint(RULES, manifests, kubernetes)


def lint_one(case: Case) -> list[Finding]:
    """Run the rule of a case."""
    rules = [rule for rule in RULES if rule.id == case.rule]
    assert rules, f"{case.rule}: no such rule (or its module cannot be imported)"
    return _lint(rules, manifests_of(case), case.kubernetes)


def _lint(
    rules: list[Rule] | tuple[Rule, ...],
    manifests: tuple[Manifest, ...],
    kubernetes: tuple[int, int],
) -> list[Finding]:
    whole = scene(manifests, kubernetes)
    return [Finding.of(rule, spot) for rule in rules for spot in rule.check(whole)]


def scene(manifests: tuple[Manifest, ...], kubernetes: tuple[int, int] = (1, 37)) -> Scene:
    """Put manifests together with the model and the racks that they are judged by."""
    return Scene(manifests=manifests, kubernetes=kubernetes, model=_model(), hardware=_hardware())


@functools.cache
def _model() -> Any:
    return load_model("kimi-k3", beside=FOLDER)


@functools.cache
def _hardware() -> Any:
    return load_hardware("gb300-nvl72", beside=FOLDER)


def shown(
    findings: list[Finding], wanted: tuple[Mapping[str, object], ...]
) -> list[dict[str, Any]]:
    """Reduce findings to what a case states about them."""
    stated = {key for item in wanted for key in item} or {"line", "path"}
    assert stated <= set(SHOWN), f"a finding has {', '.join(SHOWN)}"
    reduced = [{key: getattr(item, key) for key in sorted(stated)} for item in findings]
    return sorted(reduced, key=repr)
