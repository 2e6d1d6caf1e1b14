"""Run rules over a scene. Pure: a scene comes in, a report goes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from infra.lint.rule import Finding, Rule, Severity
from infra.lint.scene import Scene
from infra.lint.waivers import Waived, Waiver, apply_waivers


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was looked at, and what was found."""

    files: int
    objects: int
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...]

    @property
    def is_clean(self) -> bool:
        """Say whether nothing has to be done; an info asks for nothing."""
        return not self.count("error") and not self.count("warning")

    def count(self, severity: Severity) -> int:
        """Count the findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)


def lint(
    scene: Scene, rules: Iterable[Rule], *, waivers: Sequence[Waiver] = (), today: date
) -> Report:
    """Find what is wrong in a scene, in the order of files and lines."""
    found = [Finding.of(rule, spot) for rule in rules for spot in rule.check(scene)]
    counting, waived = apply_waivers(found, waivers, today)
    return Report(
        files=len({item.file for item in scene.manifests}),
        objects=len(scene.manifests),
        findings=tuple(sorted(counting, key=_place)),
        waived=tuple(sorted(waived, key=lambda item: _place(item.finding))),
    )


def _place(finding: Finding) -> tuple[str, int, str, str, str]:
    return finding.file, finding.line or 0, finding.rule, finding.object, finding.path
