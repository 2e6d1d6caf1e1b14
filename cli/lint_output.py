"""Print what the linter found: lines for people and editors, data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from fleet.errors import sentence
from infra.lint.rule import Finding
from infra.lint.run import Report


def report_json(report: Report) -> dict[str, Any]:
    """Describe a report completely."""
    return {
        "summary": {
            "files": report.files,
            "objects": report.objects,
            "errors": report.count("error"),
            "warnings": report.count("warning"),
            "infos": report.count("info"),
            "waived": len(report.waived),
        },
        "findings": [asdict(item) for item in report.findings],
        "waived": [
            {
                **asdict(item.finding),
                "reason": item.waiver.reason,
                "expires": item.waiver.expires.isoformat(),
            }
            for item in report.waived
        ],
    }


def print_report(report: Report) -> None:
    """Print one line per finding, and a summary."""
    for first, others in folded(report.findings):
        more = f" (and {others:,} more)" if others else ""
        click.echo(_line(first, more))
    click.echo(_summary(report))


def folded(findings: tuple[Finding, ...]) -> list[tuple[Finding, int]]:
    """Give each finding with the number of others like it.

    A rendering holds hundreds of like replicas, and no lines that one could go to. What
    stands in files is never folded.
    """
    groups: dict[object, tuple[Finding, int]] = {}
    for number, item in enumerate(findings):
        kind = item.object.partition(" ")[0]
        like = (item.file, item.rule, kind, item.path, item.what, item.fix)
        key = number if item.line is not None else like
        first, others = groups.get(key, (item, -1))
        groups[key] = first, others + 1
    return list(groups.values())


def _line(finding: Finding, more: str) -> str:
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    what = f"{finding.object}{more}: "
    if finding.path:
        what += f"{finding.path}: "
    said = f"{sentence(finding.what)} {sentence(finding.fix)}"
    return _safe(f"{where}: {finding.severity} {finding.rule} {what}{said}")


def _safe(text: str) -> str:
    """Keep what is in a manifest from moving the cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _summary(report: Report) -> str:
    counts = [
        _count(report.count("error"), "error"),
        _count(report.count("warning"), "warning"),
        _count(report.count("info"), "info"),
        f"{len(report.waived):,} waived",
    ]
    looked = f"{_count(report.files, 'file')}, {_count(report.objects, 'object')}"
    return f"{looked}: {', '.join(counts)}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
