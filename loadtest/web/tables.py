"""Make the tables that the page shows, and that can be had as CSV: pure, from the board."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.judge.gates import Gate
from loadtest.results.health_figures import EVENTS_PER_CORE_S, Health
from loadtest.results.server_truth import cross_check
from loadtest.web.board import Board

Row = dict[str, str | int]

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute it
_NONE = "-"


_TABS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "prefix-cache": (
        "Prefix cache",
        {
            "region": "Region",
            "turns": "Turns",
            "requests": "Requests",
            "prompt": "Prompt tokens",
            "cached": "Cached tokens",
            "hit": "Hit",
            "attainable": "Attainable in the region",
            "everywhere": "Attainable over all regions",
            "ratio": "Achieved ÷ attainable",
            "replica": "Best replica chosen",
            "unreported": "Without report",
        },
    ),
    "slo-gates": (
        "SLO gates",
        {
            "gate": "Gate",
            "kind": "Kind",
            "value": "So far",
            "limit": "Limit",
            "status": "Status",
            "why": "Why",
        },
    ),
    "generator-health": (
        "Generator health",
        {
            "process": "Process",
            "state": "State",
            "stage": "Stage",
            "offered": "Offered",
            "achieved": "Achieved",
            "lag_p50": "Lag p50 (ms)",
            "lag_p99": "Lag p99 (ms)",
            "cpu": "CPU (cores)",
            "memory": "Memory (MiB)",
            "events": "Events/s",
            "events_share": f"of {EVENTS_PER_CORE_S:,.0f} a core",
        },
    ),
    "replicas": (
        "Regions and replicas",
        {
            "region": "Region",
            "replica": "Replica",
            "requests": "Requests",
            "share": "Share of region",
            "errors": "Errors",
            "hit": "Hit",
            "ratio": "Achieved ÷ attainable",
            "ttft_p50": "TTFT p50 (ms)",
            "ttft_p95": "TTFT p95 (ms)",
        },
    ),
    "search": (
        "Search",
        {
            "trial": "Trial",
            "users": "Users",
            "outcome": "Outcome",
            "requests": "Requests",
            "ttft_p95": "TTFT p95 (ms)",
            "why": "Why",
        },
    ),
}
"""Title and columns of each tab, in the order of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Hold one tab: its columns by key, and how its rows are made."""

    key: str
    title: str
    columns: Mapping[str, str]
    rows: Callable[[], list[Row]]


def tables(
    board: Board, gates: Sequence[Gate], offered: Callable[[], float | None]
) -> tuple[Table, ...]:
    """Give all tabs, in the order of the page."""
    rows: Mapping[str, Callable[[], list[Row]]] = {
        "prefix-cache": lambda: cache_rows(board),
        "slo-gates": lambda: gate_rows(board, gates),
        "generator-health": lambda: health_rows(board, offered()),
        "replicas": lambda: replica_rows(board),
        "search": lambda: search_rows(board),
    }
    return tuple(
        Table(key=key, title=title, columns=columns, rows=rows[key])
        for key, (title, columns) in _TABS.items()
    )


def cache_rows(board: Board) -> list[Row]:
    """Give achieved against attainable cache hit, per region, then per turn of the session."""
    rows: list[Row] = []
    for cut in ("region", "turn"):
        for found in board.figures.hit_rows(cut):
            everywhere = found["attainable_global"]
            rows.append(
                {
                    "region": found["region"],
                    "turns": found["bucket"],
                    "requests": found["requests"],
                    "prompt": found["prompt"],
                    "cached": found["cached"],
                    "hit": _percent(found["hit"]),
                    "attainable": _percent(found["attainable_hit"]),
                    "everywhere": _percent(_ratio(everywhere, found["prompt"])),
                    "ratio": _percent(found["ratio"]),
                    "replica": _percent(found["regret"]),
                    "unreported": found["unreported"],
                }
            )
    return rows


def gate_rows(board: Board, gates: Sequence[Gate]) -> list[Row]:
    """Give each gate as it stands on the figures so far; without a figure it waits."""
    figures = board.gate_figures()
    rows: list[Row] = []
    for gate in gates:
        value = figures.get(gate.metric)
        status = "waiting"
        if value is not None:
            reached = value >= gate.limit if gate.op == ">=" else value <= gate.limit
            status = "pass" if reached else "FAIL"
        rows.append(
            {
                "gate": gate.title,
                "kind": gate.kind,
                "value": _NONE if value is None else f"{value:.4g}",
                "limit": f"{gate.op} {gate.limit:g}",
                "status": status,
                "why": gate.why,
            }
        )
    return rows


def health_rows(board: Board, offered: float | None) -> list[Row]:
    """Give how each process keeps up, and all together first."""
    every = list(board.workers.items())
    rows: list[Row] = []
    if board.problem:
        rows.append({"process": "last start", "state": board.problem})
    if not every:
        return rows
    due = max(health.arrivals_due for _, health in every)
    started = sum(health.sessions_started for _, health in every)
    users = sum(health.users for _, health in every)
    events = sum(health.events_per_s for _, health in every)
    rows.append(
        {
            "process": "all",
            "state": "1 process" if len(every) == 1 else f"{len(every)} processes",
            "stage": every[0][1].stage or _NONE,
            "offered": f"{due} sessions" if due else _users(offered),
            "achieved": f"{started} sessions" if due else _users(users),
            "lag_p50": _ms(board.lag.rank(0.50)),
            "lag_p99": _ms(board.lag.rank(0.99)),
            "cpu": f"{sum(health.cpu_share for _, health in every):.2f}",
            "memory": round(sum(health.memory_bytes for _, health in every) / 2**20),
            "events": round(events),
            "events_share": _percent(events / (EVENTS_PER_CORE_S * len(every))),
        }
    )
    rows.extend(_process(name, health, board) for name, health in sorted(every))
    return rows


def replica_rows(board: Board) -> list[Row]:
    """Give what each replica did, by the name that the answers give it, and what servers count."""
    found = board.figures.hit_rows("replica")
    requests: dict[str, int] = {}
    for entry in found:
        requests[entry["region"]] = requests.get(entry["region"], 0) + entry["requests"]
    rows: list[Row] = []
    for entry in found:
        ttft = board.ttft.get((entry["region"], entry["bucket"]))
        rows.append(
            {
                "region": entry["region"],
                "replica": entry["bucket"],
                "requests": entry["requests"],
                "share": _percent(_ratio(entry["requests"], requests[entry["region"]])),
                "errors": entry["errors"],
                "hit": _percent(entry["hit"]),
                "ratio": _percent(entry["ratio"]),
                "ttft_p50": _ms(ttft.rank(0.50) if ttft else None),
                "ttft_p95": _ms(ttft.rank(0.95) if ttft else None),
            }
        )
    ours = {row["region"]: row["hit"] for row in board.figures.hit_rows("region")}
    for truth in cross_check(board.pages, ()).hits:
        mine = ours.get(truth.region)
        apart = None if mine is None or truth.hit is None else (truth.hit - mine) * 100
        said = _NONE if apart is None else f"{apart:+.1f} points to ours"
        rows.append(
            {
                "region": truth.region,
                "replica": f"all, counted by {truth.source}",
                "hit": _percent(truth.hit),
                "ratio": said,
            }
        )
    return rows


def search_rows(board: Board) -> list[Row]:
    """Give every trial of the search, and what was found."""
    rows: list[Row] = [
        {
            "trial": number,
            "users": trial.users,
            "outcome": trial.outcome,
            "requests": trial.figures.requests if trial.figures else _NONE,
            "ttft_p95": _ms(trial.figures.ttft_p95_ms if trial.figures else None),
            "why": trial.why,
        }
        for number, trial in enumerate(board.trials, start=1)
    ]
    if board.found is not None:
        most = _NONE if board.found.users is None else board.found.users
        word = "found" if board.found.settled else "not settled"
        rows.append({"trial": "result", "users": most, "outcome": word, "why": board.found.why})
    return rows


def as_csv(table: Table) -> str:
    """Give a table as CSV; a name that a spreadsheet would compute is made text."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns.values())
    for row in table.rows():
        writer.writerow([_cell(row.get(key, "")) for key in table.columns])
    return text.getvalue()


def _process(name: str, health: Health, board: Board) -> Row:
    return {
        "process": name,
        "state": "silent" if board.is_silent(name) else "ok",
        "stage": health.stage or _NONE,
        "offered": _NONE,
        "achieved": f"{health.sessions} at work",
        "lag_p50": _ms(health.lag.rank(0.50)),
        "lag_p99": _ms(health.lag.rank(0.99)),
        "cpu": f"{health.cpu_share:.2f}",
        "memory": round(health.memory_bytes / 2**20),
        "events": round(health.events_per_s),
        "events_share": _percent(health.events_per_s / EVENTS_PER_CORE_S),
    }


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS) and value != _NONE:
        return "'" + value
    return value


def _users(count: float | None) -> str:
    return _NONE if count is None else f"{count:.0f} users"


def _ms(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}"


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.1f} %"


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
