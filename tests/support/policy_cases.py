"""Read what admission policies must refuse: one change of a good object each."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lint_cases import change_at

FOLDER = Path(__file__).parents[1] / "cases" / "policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """What is changed of an object of a kind, and the rule that must refuse it."""

    kind: str
    name: str
    rule: str
    changes: Mapping[str, object]

    def __str__(self) -> str:
        """Name the case in pytest's output."""
        return f"{self.kind}: {self.name}"

    def change(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Give the object with the mistake."""
        changed = copy.deepcopy(dict(item))
        for path, value in self.changes.items():
            change_at(changed, path, value)
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCase:
    """A change of a node by the weights stage, and the rule that must refuse it."""

    name: str
    node: str  # `own` or `other`
    patch: Mapping[str, Any]
    rule: str | None  # None: it is what the stage is there for

    def __str__(self) -> str:
        """Name the case in pytest's output."""
        return self.name


@functools.cache
def policy_cases() -> tuple[PolicyCase, ...]:
    """Read the cases of all kinds that have a policy for what is applied by hand."""
    return tuple(
        PolicyCase(kind=kind, name=item["name"], rule=item["rule"], changes=item["set"])
        for kind, items in _read("by-hand").items()
        for item in items
    )


@functools.cache
def stage_cases() -> tuple[StageCase, ...]:
    """Read what the weights stage may do to nodes, and what not."""
    return tuple(
        StageCase(name=item["name"], node=item["node"], patch=item["patch"], rule=item.get("rule"))
        for item in _read("weights-stage")
    )


def _read(name: str) -> Any:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=yaml.CSafeLoader)
