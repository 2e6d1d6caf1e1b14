"""Show a judged run, and leave with its exit code."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from cli.output import PIPED_WIDTH, print_json, print_line
from loadtest.judge.judging import JudgedRun
from loadtest.report.document import read_load_report
from loadtest.report.page import REPORT_NAME
from loadtest.report.terminal import load_summary


def show_judged(judged: JudgedRun, folder: Path, output: str) -> None:
    """Print the verdict and where the report is; exit 0 go, 1 no-go, 2 invalid."""
    if output == "json":
        print_json({**judged.report(), "folder": str(folder)})
    else:
        console = Console()
        if not console.is_terminal:
            console = Console(width=PIPED_WIDTH)
        console.print(load_summary(read_load_report(judged.report())))
        print_line(f"report: {folder / REPORT_NAME}")
    click.get_current_context().exit(judged.judgement.exit_code)
