"""Claims about what the page shows: figures of all processes, added up once."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest

from loadtest.judge.gates import Gate, load_gates
from loadtest.play.search import Figures, Found, Trial
from loadtest.results.health_figures import Health
from loadtest.results.histogram import Histogram
from loadtest.results.live_figures import LiveFigures
from loadtest.results.records import Record
from loadtest.results.server_truth import Page
from loadtest.web.board import MOST_SAMPLES, Board
from loadtest.web.tables import Table, as_csv, tables

MakeRecord = Callable[..., Record]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def health(**changes: Any) -> dict[str, Any]:
    lag = Histogram()
    lag.add_seconds(changes.pop("lags_s", [0.001]))
    fields: dict[str, Any] = {
        "at_s": 10.0, "stage": "", "users": 2, "sessions": 2, "sessions_started": 3,
        "arrivals_due": 0, "calls_in_flight": 1, "cpu_share": 0.25, "memory_bytes": 2**20,
        "events_per_s": 100.0, "lags": tuple(lag.packed()),
    }  # fmt: skip
    return Health(**{**fields, **changes}).plain()


def report(*records: Record, **changes: Any) -> dict[str, Any]:
    figures = LiveFigures()
    for record in records:
        figures.add(record)
    ttft = Histogram()
    ttft.add(100.0)
    return {
        "figures": figures.delta(),
        "health": health(**changes),
        "ttft": [("us", "w0", ttft.packed())],
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> Board:
    return Board(clock=clock)


def rows(board: Board, key: str, offered: float | None = None) -> list[dict[str, Any]]:
    return list(shown(board, key, offered).rows())


def shown(board: Board, key: str, offered: float | None = None) -> Table:
    found = tables(board, load_gates(), lambda: offered)
    return next(table for table in found if table.key == key)


def test_every_row_has_only_columns_of_its_table(board: Board, make_record: MakeRecord) -> None:
    """A cell without a column is never seen."""
    board.take("worker-0", report(make_record()))
    board.problem = "no"
    board.show_trials(
        [Trial(users=8, outcome="inside", why="")], Found(users=8, settled=True, why="")
    )
    for table in tables(board, load_gates(), lambda: 4.0):
        assert table.rows(), table.key
        assert all(row.keys() <= table.columns.keys() for row in table.rows())


def test_figures_add_up_the_same_wherever_they_were_counted(make_record: MakeRecord) -> None:
    """Each is told once: a sum of sums would grow without traffic."""
    records = [
        make_record(),
        make_record(cached_tokens=None),
        make_record(region="eu", attainable_tokens=1000, turn=7),
        make_record(error="server_5xx"),
    ]
    together, apart = Board(), Board()
    together.take("worker-0", report(*records))
    for number, record in enumerate(records):
        apart.take(f"worker-{number % 2}", report(record))
        apart.take(f"worker-{number % 2}", {})
    for key in ("prefix-cache", "slo-gates"):
        assert [r for r in rows(apart, key) if "lag" not in str(r).lower()] == [
            r for r in rows(together, key) if "lag" not in str(r).lower()
        ]


def test_the_cache_is_shown_by_region_and_by_turn(board: Board, make_record: MakeRecord) -> None:
    """Late turns are where a router that forgets loses most."""
    board.take("worker-0", report(make_record(), make_record(turn=30, cached_tokens=256)))
    found = {(row["region"], row["turns"]): row["ratio"] for row in rows(board, "prefix-cache")}
    assert found == {
        ("us", "all"): "75.0 %", ("us", "1"): "100.0 %", ("us", "26+"): "50.0 %",
    }  # fmt: skip


def test_a_gate_without_a_figure_waits(board: Board, make_record: MakeRecord) -> None:
    """Neither pass nor fail: nobody knows yet."""
    assert {row["status"] for row in rows(board, "slo-gates")} == {"waiting"}
    board.take("worker-0", report(make_record(), make_record(error="timeout")))
    found = {row["gate"]: row["status"] for row in rows(board, "slo-gates")}
    assert found["Failed requests"] == "FAIL"
    assert found["Achieved ÷ attainable cache hit"] == "pass"
    assert found["Every replica registered"] == "waiting"


def test_gates_are_compared_in_their_direction(board: Board, make_record: MakeRecord) -> None:
    """At the limit they pass."""
    board.take("worker-0", report(make_record()))
    gate = Gate(
        id="a", title="Hit", kind="slo", metric="hit.ratio", op=">=", limit=1.0, why="because"
    )
    worse = gate.model_copy(update={"id": "b", "op": "<=", "limit": 0.99})
    found = next(
        table for table in tables(board, [gate, worse], lambda: None) if table.key == "slo-gates"
    )
    assert [row["status"] for row in found.rows()] == ["pass", "FAIL"]


def test_the_generator_tells_offered_and_achieved_load(board: Board, clock: Clock) -> None:
    """Sessions where they begin at a rate, users where they do not."""
    board.take("worker-0", report(lags_s=[0.001, 0.2]))
    board.take("worker-1", report(cpu_share=0.5))
    total, *each = rows(board, "generator-health", offered=8)
    assert (total["offered"], total["achieved"], total["cpu"]) == ("8 users", "4 users", "0.75")
    assert [row["process"] for row in each] == ["worker-0", "worker-1"]
    assert float(total["lag_p99"]) == pytest.approx(200, rel=0.02)
    board.take("worker-1", report(arrivals_due=9))
    total = rows(board, "generator-health")[0]
    assert (total["offered"], total["achieved"]) == ("9 sessions", "6 sessions")
    clock.now_s = 60.0
    board.take("worker-1", report())
    assert [row["state"] for row in rows(board, "generator-health")][1:] == ["silent", "ok"]


def test_a_failed_start_is_shown_until_the_next(board: Board) -> None:
    """The one who pressed start looks at the page, not at a terminal."""
    board.problem = "targets.us: connect"
    assert rows(board, "generator-health")[0]["state"] == "targets.us: connect"
    board.clear(board.options)
    assert rows(board, "generator-health") == []


def test_replicas_have_their_share_of_their_region(board: Board, make_record: MakeRecord) -> None:
    """One that gets nothing, or everything, is a router that does not route."""
    board.take("w", report(*[make_record()] * 3, make_record(worker="w1", cached_tokens=0)))
    assert [(r["replica"], r["share"], r["hit"]) for r in rows(board, "replicas")] == [
        ("w0", "75.0 %", "51.2 %"), ("w1", "25.0 %", "0.0 %"),
    ]  # fmt: skip
    assert float(rows(board, "replicas")[0]["ttft_p95"]) == pytest.approx(100, rel=0.02)


def test_what_servers_count_stands_beside_what_answers_say(
    board: Board, make_record: MakeRecord
) -> None:
    """More than two points between them, and one of the two is wrong."""
    board.take("w", report(make_record()))
    page = Page(region="us", url="http://127.0.0.1:1/metrics")
    for tokens, cached in ((0, 0), (2000, 900)):
        page.take(
            {
                "vllm:prefix_cache_queries_total{}": float(tokens),
                "vllm:prefix_cache_hits_total{}": float(cached),
            }
        )
    board.pages = [page]
    row = rows(board, "replicas")[-1]
    assert (row["replica"], row["hit"]) == ("all, counted by vllm", "45.0 %")
    assert row["ratio"] == "-6.2 points to ours"


def test_a_csv_file_holds_the_table_and_no_formula(board: Board, make_record: MakeRecord) -> None:
    """A replica names itself, and a spreadsheet would run what it says."""
    board.take("w", report(make_record(worker='=HYPERLINK("http://x")'), make_record(worker="a,b")))
    found = list(csv.reader(io.StringIO(as_csv(shown(board, "replicas")))))
    assert found[0][:2] == ["Region", "Replica"]
    assert [row[1] for row in found[1:]] == ['\'=HYPERLINK("http://x")', "a,b"]


def test_charts_show_what_came_since_the_last_point(
    board: Board, clock: Clock, make_record: MakeRecord
) -> None:
    """Not the sum of the run, in which a dip of a minute drowns."""
    clock.now_s = 5.0
    board.take("w", report(make_record(), make_record(region="eu", error="timeout")))
    board.sample(2)
    clock.now_s = 10.0
    board.take("w", report(make_record(cached_tokens=0, ttft_s=2.0)))
    board.sample(2)
    first, second = board.samples
    assert (first.regions["us"]["hit"], second.regions["us"]["hit"]) == (0.512, 0.0)
    assert second.regions["us"]["ttft_p95_ms"] == pytest.approx(2000, rel=0.02)
    assert (first.requests_per_s, first.errors_per_s, second.errors_per_s) == (0.4, 0.2, 0.0)
    assert "eu" not in second.regions


def test_charts_of_a_day_are_no_longer_than_those_of_an_hour(board: Board) -> None:
    """Old points thin out; the first and the newest stay."""
    for tick in range(20 * MOST_SAMPLES):
        board.take("w", report(at_s=float(tick)))
        board.sample(None)
    assert MOST_SAMPLES / 2 <= len(board.samples) <= MOST_SAMPLES + 1
    times = [sample.at_s for sample in board.samples]
    assert times == sorted(times)
    assert times[-1] >= 19.9 * MOST_SAMPLES


def test_a_trial_measures_from_its_beginning(board: Board, make_record: MakeRecord) -> None:
    """What came while users were started says nothing about their number."""
    board.take("w", report(make_record(ttft_s=9.0), lags_s=[1.0]))
    board.begin_trial()
    board.take("w", report(make_record(), make_record(error="timeout")))
    found = board.trial_figures()
    assert isinstance(found, Figures)
    assert (found.requests, found.errors, found.hit_ratio) == (2, 1, 1.0)
    assert found.ttft_p95_ms == pytest.approx(100, rel=0.02)
    assert found.lag_p99_ms < 10
