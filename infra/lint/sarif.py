"""Write a report as SARIF 2.1.0, which code hosts show beside the lines.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fleet.errors import sentence
from infra.lint.rule import Finding, Rule, Severity
from infra.lint.run import Report
from infra.lint.waivers import Waived

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def sarif(report: Report, rules: Iterable[Rule], version: str) -> dict[str, Any]:
    """Describe one run: the rules, and one result per finding, waived ones included."""
    listed = sorted(rules, key=lambda rule: rule.id)
    index = {rule.id: number for number, rule in enumerate(listed)}
    driver = {"name": "k3fleet", "version": version, "rules": [_rule(rule) for rule in listed]}
    results = [_result(item, index) for item in report.findings]
    results += [_suppressed(item, index) for item in report.waived]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": sentence(rule.reason)},
        "help": {"text": f"{sentence(rule.reason)} {sentence(rule.fix)} Source: {rule.source}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }
    if rule.source.startswith("https://") and " " not in rule.source:
        described["helpUri"] = rule.source
    return described


def _result(finding: Finding, index: Mapping[str, int]) -> dict[str, Any]:
    where = f"{finding.path}: " if finding.path else ""
    said = f"{sentence(finding.what)} {sentence(finding.fix)}"
    location: dict[str, Any] = {
        "logicalLocations": [
            {
                "name": finding.object,
                "fullyQualifiedName": f"{finding.file}: {finding.object}: {finding.path}",
                "kind": "resource",
            }
        ]
    }
    if finding.line is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(finding.file)},
            "region": {"startLine": finding.line},
        }
    return {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.object}: {where}{said}"},
        "locations": [location],
    }


def _suppressed(item: Waived, index: Mapping[str, int]) -> dict[str, Any]:
    why = f"{item.waiver.reason} (until {item.waiver.expires})"
    suppression = {"kind": "external", "status": "accepted", "justification": why}
    return {**_result(item.finding, index), "suppressions": [suppression]}


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
