"""Write the figures of a run as CSV, for spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from loadtest.report.document import LatencyTable, LoadReport, clean_text

BUCKETS_FILE = "buckets.csv"
REPLICAS_FILE = "replicas.csv"
TIMELINE_FILE = "timeline.csv"
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet computes a cell that starts like this

DECIMALS = 3  # of a millisecond; a share in tenths of a percent

Row = Mapping[str, object]


def write_tables(report: LoadReport, folder: Path) -> None:
    """Write one file for each kind of row."""
    load = report.load
    _write(folder / BUCKETS_FILE, _bucket_rows(load.latency.tables))
    _write(folder / REPLICAS_FILE, [dict(replica) for replica in load.replicas])
    _write(folder / TIMELINE_FILE, [dict(part) for part in load.timeline])


def cell(value: object) -> object:
    """Return what a spreadsheet shows as it is, whatever a name holds; None is an empty cell."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, DECIMALS)
    if not isinstance(value, str):
        return value
    text = clean_text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _bucket_rows(tables: Iterable[LatencyTable]) -> list[Row]:
    """Give every latency of every region and bucket, one way of grouping after the other."""
    return [{"by": table.by, **dict(row)} for table in tables for row in table.rows]


def _write(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        if not rows:
            return
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
