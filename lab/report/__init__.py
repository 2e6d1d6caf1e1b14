"""Show what a rehearsal found: a self-contained page and a summary for the terminal."""

from __future__ import annotations

from lab.report.document import Report, read_report
from lab.report.page import write_report
from lab.report.terminal import terminal_summary

__all__ = ["Report", "read_report", "terminal_summary", "write_report"]
