"""Claims about the settings file and the generator's command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ConfigError
from fleet.spec import PROFILE_PREFIX, TRACE_PREFIX, TRAFFIC_PROFILES
from loadtest.run import generator_command
from loadtest.settings import TRACE_PREFIX as PREFIX
from loadtest.settings import LoadSettings, read_settings, write_settings
from loadtest.traffic import profiles
from loadtest.traffic.profiles import known_profiles


def settings(out_dir: Path, **changes: Any) -> LoadSettings:
    fields = {"targets": {"us": "http://127.0.0.1:1"}, "tokenizer_dir": "/m", "users": 3}
    return LoadSettings.model_validate({**fields, "out_dir": out_dir, **changes})


def test_settings_survive_their_file(tmp_path: Path) -> None:
    """The generator must do what its starter asked for."""
    asked = settings(tmp_path, traffic="trace:/t.json", duration_s=7.5)
    assert read_settings(write_settings(asked)) == asked


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"sessions_per_minute": 3}, "either users"),
        ({"users": None}, "either users"),
        ({"targets": {}}, "targets"),
        ({"targets": {"us": "127.0.0.1:80"}}, "is no http"),
        ({"durations": 3}, "durations"),
        ({"duration_s": 0}, "duration_s"),
        ({"run_id": "a\r\nX-Header: b"}, "run_id"),
        ({"users": "many", "block_size": 0}, "block_size"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    """The message names the file and the field."""
    path = tmp_path / "settings.json"
    document = json.loads(settings(tmp_path).model_dump_json()) | changes
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_settings(path)
    assert "settings.json" in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://user:hunter2pw@127.0.0.1:1/ok", "user or password"),
        ("http://hunter2pw@127.0.0.1:1", "user or password"),
        ("ftp://user:hunter2pw@127.0.0.1:1", "is no http"),
        ("http:/user:hunter2pw@127.0.0.1:1", "is no http"),
        ("http://[user:hunter2pw@127.0.0.1:1", "is no URL"),
        ("http://127.0.0.1:1/ok?x=1", "query"),
        ("http://127.0.0.1:1/ok?", "query"),
        ("http://127.0.0.1:1/ok#x", "fragment"),
        ("http://127.0.0.1:1/π", "characters"),
        ("http://ü.example", "characters"),
        ("http://127.0.0.1:1/a b", "characters"),
        ("http://127.0.0.1:1/\r\nX: y", "characters"),
        ("http://127.0.0.1:99999", "is no URL"),
    ],
)
def test_a_url_is_refused_that_leaks_or_is_not_sent_as_it_is(
    tmp_path: Path, url: str, what: str
) -> None:
    """A password would stand in all files; what is dropped silently is another endpoint."""
    path = tmp_path / "settings.json"
    document = json.loads(settings(tmp_path).model_dump_json())
    path.write_text(json.dumps(document | {"targets": {"us": url}}), encoding="utf-8")
    with pytest.raises(ConfigError, match=what) as caught:
        read_settings(path)
    assert "hunter2pw" not in str(caught.value)


def test_a_page_of_counters_has_no_password_either(tmp_path: Path) -> None:
    """Its URL stands in the same files; a query is sent as it is."""
    settings(tmp_path, results={"metrics": {"us": ["http://127.0.0.1:1/metrics?name=a"]}})
    with pytest.raises(ValueError, match="user or password"):
        settings(tmp_path, results={"metrics": {"us": ["http://u:p@127.0.0.1:1/metrics"]}})


def options(command: list[str]) -> dict[str, str]:
    return dict(zip(command, [*command[1:], ""], strict=True))


def test_a_headless_generator_ends_by_itself(tmp_path: Path) -> None:
    """Its own clock ends it: Locust's would also count the reading of traces."""
    command = generator_command(
        settings(tmp_path, duration_s=60), python=Path("python"), web_port=None
    )
    assert "--headless" in command
    assert "--run-time" not in command


def test_the_web_page_is_on_loopback_only(tmp_path: Path) -> None:
    """Locust's own default is every address of the machine."""
    command = generator_command(settings(tmp_path), python=Path("python"), web_port=8089)
    assert options(command)["--web-host"] == "127.0.0.1"


def test_an_open_loop_needs_one_user(tmp_path: Path) -> None:
    """The arrivals come from one place, whatever their rate."""
    rate = settings(tmp_path, users=None, sessions_per_minute=30)
    command = generator_command(rate, python=Path("python"), web_port=None)
    assert options(command)["--users"] == "1"


def test_a_fleet_file_knows_the_profiles_of_the_load_generator() -> None:
    """It is read where no load generator may be imported."""
    assert list(TRAFFIC_PROFILES) == known_profiles()
    assert (TRACE_PREFIX, PROFILE_PREFIX) == (PREFIX, profiles.PROFILE_PREFIX)
