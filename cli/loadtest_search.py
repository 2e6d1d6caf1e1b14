"""Show what the search of a limit found, and leave with its exit code."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from cli.output import print_facts, print_json, print_line, print_table
from fleet.errors import EXIT_GO, EXIT_INVALID, EXIT_NO_GO
from loadtest.play.search import Found, Trial
from loadtest.report.page import REPORT_NAME
from loadtest.results.search_file import read_search


def show_found(folder: Path, output: str) -> None:
    """Print the limit and its trials; exit 0 found, 1 no number is inside, 2 not settled."""
    trials, found = read_search(folder)
    if output == "json":
        told = {"found": asdict(found), "trials": [asdict(trial) for trial in trials]}
        print_json({**told, "folder": str(folder)})
    else:
        print_table(("agents", "outcome", "why", "TTFT p95 ms", "TPOT p95 ms", "hit ratio"),
                    [_row(trial) for trial in trials])  # fmt: skip
        most = "none" if found.users is None else f"{found.users:,}"
        print_facts((("most agents", most), ("settled", "yes" if found.settled else "no")))
        print_line(found.why)
        print_line(f"report: {folder / REPORT_NAME}")
    click.get_current_context().exit(_exit_code(found))


def _row(trial: Trial) -> tuple[object, ...]:
    figures = trial.figures
    measured = (
        (None, None, None)
        if figures is None
        else (figures.ttft_p95_ms, figures.tpot_p95_ms, figures.hit_ratio)
    )
    shown = ("-" if value is None else f"{value:.4g}" for value in measured)
    return (trial.users, trial.outcome, trial.why, *shown)


def _exit_code(found: Found) -> int:
    if not found.settled:
        return EXIT_INVALID
    return EXIT_NO_GO if found.users is None else EXIT_GO
