"""The report of a rollout: what it says, and that it can neither run nor fetch anything."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rollout_large import large_record
from rollout_world import World, started
from run_folders import GENERATOR, HOSTILE, RECORD, make_run

from fleet.rollout.figures import Figures
from fleet.rollout.record import PHASES, Entry
from loadtest.results.saved_run import SavedRun, read_saved
from loadtest.rollout.document import build, report_json
from loadtest.rollout.page import key_figures, render

BEGAN_S = 1.8e9


def record(phases: int = 2 * len(PHASES), **changes: Any) -> list[Entry]:
    """Give the record of some phases, ten seconds between two entries."""
    world = World(record=[started().model_copy(update=changes)])
    for _ in range(phases):
        world.go()
    return [
        entry.model_copy(update={"at_s": BEGAN_S + 10.0 * n})
        for n, entry in enumerate(world.record)
    ]


def figures(region: str, serving: int = 3, to_s: float = 440.0) -> list[Figures]:
    return [
        Figures(
            region=region, from_s=BEGAN_S + at_s, to_s=BEGAN_S + at_s + 10, serving=serving,
            updated=1, replicas=4, requests=100.0, errors=1.0, prompt_tokens=1000.0,
            cached_tokens=900.0, answers=99.0, first_token_s=19.8, buckets={0.25: 99.0},
        )
        for at_s in range(0, int(to_s), 10)
    ]  # fmt: skip


@pytest.fixture
def load(tmp_path: Path) -> SavedRun:
    """Give a load that began 60 s before the rollout; two requests failed, one before it."""
    began = datetime.fromtimestamp(BEGAN_S - 60, UTC).isoformat()
    failed = replace(RECORD, error="in_stream_error", cached_tokens=None, ttft_s=0.2)
    records = [
        replace(failed, sent_s=5.0, chunks=0),
        *(replace(RECORD, sent_s=float(n)) for n in range(0, 200, 2)),
        replace(failed, sent_s=100.0),
    ]
    return read_saved(
        make_run(tmp_path / "run", records, replace(GENERATOR, started_at=began, duration_s=200.0))
    )


def test_it_says_what_happened_in_numbers(load: SavedRun) -> None:
    """The same that the page shows, for programs."""
    report = build("demo", 3, record(expected_s=400.0), [*figures("a"), *figures("b", 1)], load)
    told = json.loads(json.dumps(report_json(report, "1")))
    assert (told["kind"], told["status"], told["took_s"]) == ("rollout", "running", 440.0)
    assert [step["step"] for step in told["steps"]] == [1, 2]
    a, b = told["regions"]
    assert (a["floor"], a["fewest"], b["fewest"]) == (4, 3, 1)
    assert a["looks"][0]["error_rate"] == 0.01
    assert (a["looks"][0]["hit"], a["looks"][0]["ttft_mean_s"]) == (0.9, 0.2)
    clients = told["clients"]
    assert (clients["failed"], clients["failed_meanwhile"], clients["cut"]) == (2, 1, 1)
    assert clients["by_class"] == {"in_stream_error": 1}
    assert clients["regions"]["us"][0]["from_s"] == -60.0
    assert report.missing == ()


def test_the_page_shows_it() -> None:
    """Figures in words, and every plot with its numbers as a table."""
    page = render(build("demo", 3, record(), [*figures("a"), *figures("b")]), "1")
    assert "rollout 3" in page
    assert "3 of 4" in page
    assert len(re.findall(r'class="plot"', page)) == 3
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert [figure["id"] for figure in drawn] == ["steps", "region-0", "region-1"]


def test_what_is_not_known_is_said() -> None:
    """A report without figures must not look like one in which all was well."""
    report = build("demo", 1, record(), figures("a", to_s=100.0))
    assert report.missing == (
        "a: nobody looked from 100 to 440 s.",
        "b: no figures were kept in this working copy.",
        "What clients saw: give the folder of a load test with --load.",
    )
    page = render(report, "1")
    for text in (*report.missing, "Nobody looked at this region", "No load test was given"):
        assert text in page


def test_a_floor_that_was_crossed_is_marked() -> None:
    """The reader has to see it first."""
    keys = key_figures(build("demo", 1, record(), [*figures("a", 2), *figures("b", 4)]))
    marks = {key.name: key.status for key in keys if key.name.startswith("served")}
    assert marks == {"served in a, at least": "fail", "served in b, at least": "pass"}


def test_what_others_chose_can_neither_run_nor_fetch() -> None:
    """Names come from files and clusters, reasons from whatever failed."""
    entries = record(3, by=HOSTILE, new=HOSTILE)
    entries[-1] = entries[-1].model_copy(update={"outcome": "failed", "why": HOSTILE})
    page = render(build(HOSTILE, 1, entries, [], None), HOSTILE)
    assert "<img" not in page.partition("<script>")[0]
    assert 'http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;' in page
    assert not re.search(r'(src|href)="(?!#)', page.partition("<script>")[0])


def test_a_rollout_of_1800_replicas_fits_on_a_page() -> None:
    """A few megabytes beside plotly's own; its table is cut, its bars are steps."""
    report = build("demo", 1, list(large_record()), figures("a"))
    page = render(report, "1")
    assert len(page) < 9_000_000
    assert "1400 more rows" in page


def test_the_same_report_gives_the_same_page() -> None:
    """So two of them can be compared."""
    report = build("demo", 1, record(), figures("a"))
    assert render(report, "1") == render(report, "1")
