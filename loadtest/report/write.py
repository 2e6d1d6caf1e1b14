"""Write all files of a load test's report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.errors import LoadError
from loadtest.report.document import read_load_report
from loadtest.report.junit import write_junit
from loadtest.report.page import write_load_report
from loadtest.report.tables import write_tables

SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.json"


def write_files(report: Mapping[str, Any], folder: Path) -> None:
    """Write report.json, summary.json, report.html, CSV and JUnit into a folder."""
    document = read_load_report(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / SUMMARY_FILE, report["load"])
        _write_json(folder / REPORT_FILE, report)
        write_load_report(document, folder)
        write_tables(document, folder)
        write_junit(document, folder)
    except OSError as error:
        raise LoadError(
            f"{folder}: the report cannot be written: {error.strerror}. Free some space, or give "
            "another folder with --out."
        ) from error


def _write_json(path: Path, data: object) -> None:
    """Write so that a reader sees the old or the new file, never half of it."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    draft.replace(path)
