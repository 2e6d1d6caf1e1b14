"""Claims about when the sessions of an open loop are due."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any

import pytest
from pydantic import ValidationError

from fleet.errors import ConfigError
from loadtest.play.arrival_times import arrivals, rate_per_minute
from loadtest.settings import LoadSettings
from loadtest.traffic.arrivals import Arrivals, RecordedArrivals

BURSTY = Arrivals(cv=1.5)
RECORDED = {"traffic": "trace:x.jsonl", "replay": {"arrivals": "recorded"}}


def settings(**changes: Any) -> LoadSettings:
    fields = {
        "targets": {"us": "http://127.0.0.1:1"}, "tokenizer_dir": "/model", "out_dir": "/out",
    }  # fmt: skip
    return LoadSettings.model_validate({**fields, **changes})


def test_a_steady_rate_is_kept() -> None:
    """Of 600 sessions a minute, 6,000 come in ten minutes, give or take bursts."""
    found = takewhile(
        lambda due_s: due_s < 600, arrivals(settings(sessions_per_minute=600), BURSTY)
    )
    assert sum(1 for _ in found) == pytest.approx(6000, rel=0.06)


def test_the_same_seed_is_the_same_arrivals_and_another_is_not() -> None:
    """Two runs are compared by what the fleet did with one load."""
    first, again, other = (
        [due_s for due_s, _ in zip(arrivals(settings(sessions_per_minute=60, seed=seed), BURSTY),
                                   range(50), strict=False)]
        for seed in (1, 1, 2)
    )  # fmt: skip
    assert first == again
    assert first != other


def test_arrivals_follow_the_stages_and_end_with_them() -> None:
    """Evenly spaced gaps show it best: one a second, then two."""
    stages = [
        {"name": "one", "duration_s": 4, "sessions_per_minute": {"start": 60, "end": 60}},
        {"name": "two", "duration_s": 2, "sessions_per_minute": {"start": 120, "end": 120}},
    ]
    found = list(arrivals(settings(stages=stages), Arrivals(cv=0.0)))
    assert found == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 5.5])


def test_recorded_arrivals_come_at_their_own_rate() -> None:
    """Whoever replays a morning wants its rush too."""
    process = RecordedArrivals([0.0, 1.0, 2.0, 10.0, 12.0])
    found = list(islice(arrivals(settings(**RECORDED), process), 4))
    assert found == pytest.approx([1.0, 2.0, 10.0, 12.0])
    faster = settings(traffic="trace:x.jsonl", sessions_per_minute=40)
    assert list(islice(arrivals(faster, process), 4)) == pytest.approx([0.5, 1.0, 5.0, 6.0])


def test_a_recording_without_start_times_has_no_rate_of_its_own() -> None:
    """Poisson arrivals at no rate would be no load."""
    with pytest.raises(ConfigError, match=r"replay\.arrivals: .*sessions_per_minute"):
        rate_per_minute(settings(**RECORDED), Arrivals(cv=1.0))


@pytest.mark.parametrize(
    "changes",
    [
        {**RECORDED, "users": 4},
        {**RECORDED, "sessions_per_minute": 4.0},
        {**RECORDED, "traffic": "burst"},
    ],
)
def test_recorded_arrivals_are_a_load_of_their_own(changes: dict[str, Any]) -> None:
    """Two loads at once are none, and a profile has no recorded starts."""
    with pytest.raises(ValidationError, match=r"replay\.arrivals"):
        settings(**changes)
