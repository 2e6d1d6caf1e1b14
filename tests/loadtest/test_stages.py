"""Claims about shapes of load: what a file says, and what follows from the time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleet.errors import ConfigError
from loadtest.play.stages import (
    Stage,
    level_at,
    load_stages,
    most_level,
    parse_stages,
    stage_at,
    stages_text,
    time_of,
    total_s,
)

SHAPE = """
stages:
  - {name: warm-up, duration: 60s, users: 4}
  - {name: ramp, duration: 5m, users: {start: 4, end: 64}}
  - {name: soak, duration: 20m, users: 64}
  - {name: burst, duration: 30s, users: 128}
  - {name: drain, duration: 10s, users: {start: 64, end: 0}}
"""


def rates(*stages: tuple[float, float, float]) -> tuple[Stage, ...]:
    return tuple(
        Stage.model_validate(
            {
                "name": f"s{number}",
                "duration_s": duration_s,
                "sessions_per_minute": {"start": start, "end": end},
            }
        )
        for number, (duration_s, start, end) in enumerate(stages)
    )


def write(folder: Path, text: str) -> Path:
    path = folder / "shape.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_the_load_at_every_time(tmp_path: Path) -> None:
    """A ramp is a straight line, a stage without one a level."""
    stages = load_stages(write(tmp_path, SHAPE))
    times = (0, 59, 60, 210, 360, 1560, 1595, 1600)
    levels = [level_at(stages, at_s) for at_s in times]
    assert levels == [4, 4, 4, 34, 64, 128, 32, None]
    assert [stage.name if (stage := stage_at(stages, at_s)) else None for at_s in times] == [
        "warm-up", "warm-up", "ramp", "ramp", "soak", "burst", "drain", None,
    ]  # fmt: skip
    assert (total_s(stages), most_level(stages)) == (1600, 128)


def test_one_line_says_the_same_as_a_file(tmp_path: Path) -> None:
    """The page has one line for it, and shows what the settings hold."""
    stages = load_stages(write(tmp_path, SHAPE))
    assert parse_stages(stages_text(stages)) == stages
    rate = parse_stages("ramp 90s 0..60.5/min; soak 1h 60.5/min")
    assert parse_stages(stages_text(rate)) == rate


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stages: []", "stages: is empty"),
        ("stages: [{name: a, duration: 1s}]", "either users or sessions_per_minute"),
        ("stages: [{name: a, duration: 1s, users: -1}]", "Give at least 0"),
        ("stages: [{name: a, duration: 1s, users: 0}]", "no stage has any load"),
        ("stages: [{name: a, duration: 0s, users: 1}]", "Give more than 0"),
        ("stages: [{name: a, duration: .nan, users: 1}]", "is not a duration"),
        ("stages: [{name: '<b>', duration: 1s, users: 1}]", "name"),
        ("stages: [{name: a, duration: 1s, users: 1e9}]", "users"),
        ("stages: [{name: a, duration: 1s, users: 1e308}]", "'1e308' is no number"),
        ("stages: [{name: a, duration: 1s, users: 1.0e+308}]", "users"),
        ("stages: [{name: a, duration: 1s, users: true}]", "true is no number"),
        ("stages: [{name: a, duration: 1s, user: 1}]", "Did you mean 'users'?"),
        ("stages: [{name: a, duration: 1s, users: 1, users: 2}]", "twice"),
        ("stages: &a [*a]", "anchor"),
    ],
)
def test_a_wrong_file_is_refused_where_it_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    """A load of the wrong shape costs an hour of racks."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_stages(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_two_names_or_two_kinds_of_load_are_refused(tmp_path: Path) -> None:
    """Figures of two stages under one name could not be told apart."""
    stage = "{name: %s, duration: 1s, %s: 1}"
    for pair in (("a", "users", "a", "users"), ("a", "users", "b", "sessions_per_minute")):
        text = f"stages: [{stage % pair[:2]}, {stage % pair[2:]}]"
        with pytest.raises(ConfigError):
            load_stages(write(tmp_path, text))


@pytest.mark.parametrize(
    "text", ["", "x", "a 1s", "a 1s 1..", "a 1s 1.2.3", "a 1s 1..2/hour", "a 1x 1", "a 1s 1;" * 200]
)
def test_a_wrong_line_is_refused(text: str) -> None:
    """Somebody types it into a page."""
    with pytest.raises(ConfigError):
        parse_stages(text)


@given(
    st.lists(
        st.tuples(st.floats(0.5, 500), st.floats(0, 600), st.floats(0, 600)), min_size=1, max_size=6
    ),
    st.floats(0, 1),
)
def test_the_time_of_a_session_is_where_the_rates_add_up_to_it(
    parts: list[tuple[float, float, float]], share: float
) -> None:
    """So that arrivals at one a unit become arrivals at the rate of the stages."""
    stages = rates(*parts)
    whole = sum(duration * (start + end) / 120 for duration, start, end in parts)
    assume(whole > 0.001)
    wanted = share * whole * 0.999
    at_s = time_of(stages, wanted)
    assert at_s is not None
    assert math.isclose(begun_by(parts, at_s), wanted, rel_tol=1e-6, abs_tol=1e-6)
    assert time_of(stages, whole * 1.001 + 1e-9) is None


def begun_by(parts: list[tuple[float, float, float]], at_s: float) -> float:
    """Add up trapezoids, which are exact for straight lines."""
    begun = 0.0
    for duration_s, start, end in parts:
        part_s = min(max(0.0, at_s), duration_s)
        middle = start + (end - start) * part_s / duration_s / 2
        begun += middle / 60 * part_s
        at_s -= duration_s
    return begun
