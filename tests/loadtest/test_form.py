"""Claims about the start form: what it shows, what it changes, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ConfigError
from loadtest.settings import LoadSettings, change_settings
from loadtest.web.form import FIELDS, changes_by, shown_by

RATE, STAGES = "sessions_per_minute", "stages"


def settings(**changes: Any) -> LoadSettings:
    fields = {
        "targets": {"us": "http://127.0.0.1:1"},
        "tokenizer_dir": "/model",
        "users": 4,
        "out_dir": "/out",
    }
    return LoadSettings.model_validate({**fields, **changes})


def by_form(base: LoadSettings, **options: Any) -> LoadSettings:
    filled = shown_by(base) | {"search_limit": base.search is not None, "num_users": 4}
    changes = changes_by(base, filled | options, is_form=True)
    return change_settings(base, changes, "form")


@pytest.mark.parametrize(
    "base",
    [
        settings(),
        settings(users=None, sessions_per_minute=2.5),
        settings(
            users=None,
            stages=[
                {"name": "ramp", "duration_s": 90, "users": {"start": 1, "end": 9}},
                {"name": "soak", "duration_s": 0.25, "users": {"start": 9, "end": 9}},
            ],
        ),
        settings(users=None, search={"ttft_p95_ms": 1000}),
        settings(users=None, traffic="trace:x.jsonl", replay={"arrivals": "recorded"}),
    ],
)
def test_a_form_that_is_sent_as_shown_changes_nothing(base: LoadSettings) -> None:
    """Whoever only presses start gets what the file says."""
    assert by_form(base) == base


@pytest.mark.parametrize("asked", [{RATE: "30"}, {"traffic": "burst"}])
def test_another_load_replaces_the_recorded_arrivals(asked: dict[str, str]) -> None:
    """They are one load, as users or a rate are."""
    base = settings(users=None, traffic="trace:x.jsonl", replay={"arrivals": "recorded", "loop": 0})
    chosen = by_form(base, **asked)
    assert (chosen.replay.arrivals, chosen.replay.loop) == ("asked", False)
    assert (chosen.users, chosen.sessions_per_minute) == (
        (None, 30) if RATE in asked else (4, None)
    )


def test_every_parameter_is_shown() -> None:
    """One that is missing would be reset by the form."""
    assert shown_by(settings()).keys() == {field.name for field in FIELDS} | {"search_limit"}


def test_the_form_chooses_the_kind_of_load() -> None:
    """Whatever kind the file has."""
    base = settings(users=None, sessions_per_minute=2.5)
    assert by_form(base, sessions_per_minute="").users == 4
    assert by_form(base, sessions_per_minute="7").sessions_per_minute == 7
    staged = by_form(base, sessions_per_minute="", stages="warm-up 5s 2; soak 1m 2..8")
    assert [stage.name for stage in staged.stages] == ["warm-up", "soak"]
    assert staged.sessions_per_minute is None


def test_scales_and_seed_are_taken() -> None:
    """They decide what is sent, so they are seen before."""
    typed = {"token_scale": "1", "time_scale": "2.5", "seed": "7"}
    changed = by_form(settings(), **typed)
    assert (changed.token_scale, changed.time_scale, changed.seed) == (1.0, 2.5, 7)


def test_on_the_command_line_nothing_given_is_nothing_changed() -> None:
    """There an empty rate is not the wish for another kind of load."""
    base = settings(users=None, sessions_per_minute=2.5)
    assert changes_by(base, {"num_users": 1}, is_form=False) == {}
    assert changes_by(base, {STAGES: "a 5s 2"}, is_form=False)[RATE] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"traffic": "interactive_agnt"}, "Did you mean 'interactive_agent'?"),
        ({"traffic": "trace:/etc/passwd"}, "is no profile"),
        ({"traffic": "profile:/etc/passwd"}, "is no profile"),
        ({"traffic": "./own.yaml"}, "is no profile"),
        ({"sessions_per_minute": "x"}, "sessions_per_minute: 'x' is no number"),
        ({"sessions_per_minute": "-1"}, "sessions_per_minute"),
        ({"sessions_per_minute": "nan"}, "sessions_per_minute"),
        ({"stages": "a 5s"}, "'a 5s' is no stage"),
        ({"stages": "a 5s 1", "sessions_per_minute": "1"}, "more than one load"),
        ({"token_scale": "0"}, "token_scale"),
        ({"token_scale": "inf"}, "token_scale"),
        ({"seed": "1.5"}, "seed: '1.5' is no number"),
        ({"seed": "9" * 5000}, "seed"),
        ({"search_limit": True}, "the settings file gives no limits"),
        ({"num_users": 0}, "users"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], said: str) -> None:
    """Before anything starts, and in the words of the form."""
    with pytest.raises(ConfigError) as caught:
        by_form(settings(), **options)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_recording_of_the_settings_file_may_stay(tmp_path: Path) -> None:
    """Only another one cannot be named: whoever presses start would read files of the machine."""
    base = settings(traffic=f"trace:{tmp_path}/trace.json")
    assert by_form(base) == base
