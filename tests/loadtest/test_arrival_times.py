"""Claims about when the sessions of an open loop are due."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import repeat, takewhile
from typing import Any

import pytest

from loadtest.play.arrival_times import arrivals
from loadtest.settings import LoadSettings


def settings(**changes: Any) -> LoadSettings:
    fields = {
        "targets": {"us": "http://127.0.0.1:1"}, "tokenizer_dir": "/model", "out_dir": "/out",
    }  # fmt: skip
    return LoadSettings.model_validate({**fields, **changes})


def even(rng: random.Random, rate_per_s: float) -> Iterator[float]:
    del rng
    return repeat(1 / rate_per_s)


def test_a_steady_rate_is_kept() -> None:
    """Of 600 sessions a minute, 6,000 come in ten minutes, give or take bursts."""
    found = takewhile(lambda due_s: due_s < 600, arrivals(settings(sessions_per_minute=600)))
    assert sum(1 for _ in found) == pytest.approx(6000, rel=0.06)


def test_the_same_seed_is_the_same_arrivals_and_another_is_not() -> None:
    """Two runs are compared by what the fleet did with one load."""
    first, again, other = (
        [due_s for due_s, _ in zip(arrivals(settings(sessions_per_minute=60, seed=seed)),
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
    found = list(arrivals(settings(stages=stages), even))
    assert found == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 5.5])
