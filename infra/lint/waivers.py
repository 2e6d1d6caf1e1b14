"""Take back findings that a team has decided to live with, until a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.spec import WaiverSpec
from fleet.yaml_document import NodePath, path_text, read_document
from infra.lint.rule import Finding, Rule, which_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One entry of `lint.waivers` in a fleet file, and where it stands."""

    rule: str
    object: str  # pattern of `Kind namespace/name`
    reason: str
    expires: date  # the last day on which it counts
    file: str
    line: int | None
    path: str

    def covers(self, finding: Finding) -> bool:
        """Say whether a finding is what this is about."""
        return finding.rule == self.rule and fnmatchcase(finding.object, self.object)


class Waived(NamedTuple):
    """A finding that does not count, and why."""

    finding: Finding
    waiver: Waiver


class Judged(NamedTuple):
    """Findings, separated by the waivers."""

    counting: list[Finding]
    waived: list[Waived]


# The waivers are no manifests, so these two have no check of their own.
EXPIRED = Rule(
    id="W001",
    severity="warning",
    title="A waiver counts until its last day",
    reason="What was accepted for a while is accepted for ever when nobody looks again",
    source="docs/lint.md",
    fix="Correct what it hides, or give it a new day and say why",
    check=lambda _: (),
)
IDLE = Rule(
    id="W002",
    severity="info",
    title="A waiver hides something",
    reason="One that matches nothing is a leftover, or its object is misspelt",
    source="docs/lint.md",
    fix="Remove it, or correct its object",
    check=lambda _: (),
)
RULES: tuple[Rule, ...] = (EXPIRED, IDLE)


def fleet_waivers(fleet: Fleet, rules: Sequence[Rule]) -> tuple[Waiver, ...]:
    """Return the waivers of a fleet file, with their lines.

    Raises ConfigError with each that names none of the rules.
    """
    document = read_document(fleet.path)
    known = {rule.id for rule in rules}
    places: list[tuple[NodePath, WaiverSpec]] = [
        (("lint", "waivers", index), item) for index, item in enumerate(fleet.spec.lint.waivers)
    ]
    unknown = [
        document.problem(
            (*path, "rule"), f"there is no rule {item.rule}", which_rule(item.rule, rules)
        )
        for path, item in places
        if item.rule not in known
    ]
    if unknown:
        raise ConfigError.of(unknown)
    return tuple(
        Waiver(
            rule=item.rule,
            object=item.object,
            reason=item.reason,
            expires=item.expires,
            file=str(fleet.path),
            line=document.line(path),
            path=path_text(path),
        )
        for path, item in places
    )


def apply_waivers(findings: Iterable[Finding], waivers: Sequence[Waiver], today: date) -> Judged:
    """Separate what is waived, and add what is wrong with the waivers themselves."""
    expired = [waiver for waiver in waivers if waiver.expires < today]
    current = [waiver for waiver in waivers if waiver.expires >= today]
    counting: list[Finding] = []
    waived: list[Waived] = []
    for finding in findings:
        waiver = next((item for item in current if item.covers(finding)), None)
        if waiver:
            waived.append(Waived(finding, waiver))
        else:
            counting.append(finding)
    counting += [_about(EXPIRED, item, f"it ended on {item.expires}") for item in expired]
    busy = {id(item.waiver) for item in waived}
    counting += [
        _about(IDLE, item, f"nothing breaks {item.rule} in {item.object!r}")
        for item in current
        if id(item) not in busy
    ]
    return Judged(counting, waived)


def _about(rule: Rule, waiver: Waiver, what: str) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        file=waiver.file,
        line=waiver.line,
        object=f"waiver of {waiver.rule}",
        path=waiver.path,
        what=what,
        fix=rule.fix,
    )
