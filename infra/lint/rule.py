"""Say what a rule is, and what it gives when it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NamedTuple

from fleet.yaml_document import NodePath, path_text
from infra.lint.manifest import Manifest
from infra.lint.scene import Scene

Severity = Literal["error", "warning", "info"]


class Spot(NamedTuple):
    """One place where a rule is broken."""

    manifest: Manifest
    path: NodePath
    what: str  # what is there, in the object's own words; no full stop
    fix: str | None = None  # None: the rule's


Check = Callable[[Scene], Iterable[Spot]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What must hold, why, who says so, and what to do when it does not."""

    id: str
    severity: Severity
    title: str  # what must hold: "A rollout never surges"
    reason: str  # what happens otherwise, in one sentence
    source: str  # public: an issue as `lws#779`, a document, a source file
    fix: str
    check: Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A broken rule, as it is reported."""

    rule: str
    severity: Severity
    file: str
    line: int | None
    object: str
    path: str
    what: str
    fix: str

    @classmethod
    def of(cls, rule: Rule, spot: Spot) -> Finding:
        """Put a rule and a place together."""
        return cls(
            rule=rule.id,
            severity=rule.severity,
            file=spot.manifest.file,
            line=spot.manifest.line(spot.path),
            object=str(spot.manifest),
            path=path_text(spot.path),
            what=spot.what,
            fix=spot.fix or rule.fix,
        )


def which_rule(name: str, rules: Iterable[Rule]) -> str:
    """Say what to write instead of the id of a rule that does not exist."""
    near = get_close_matches(name[:8].upper(), sorted(rule.id for rule in rules), n=3, cutoff=0.5)
    return f"Did you mean {', '.join(near)}? See docs/rules.md" if near else "See docs/rules.md"
