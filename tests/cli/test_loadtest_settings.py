"""What the options of `k3fleet loadtest run` lack comes from a file; `--search` finds a limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import main
from loadtest.settings import read_settings

Words = Callable[..., list[str]]
SEARCH = """
search: {start: 2, most: 4, settle_s: 1, measure_s: 3, least_requests: 3, ttft_p95_ms: 60000,
  error_rate: 0.02, lag_p99_ms: 5000}
"""


@pytest.fixture
def words(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Words:
    """Give the words of a run against the gateway double, with a settings file."""

    def make(text: str, *more: str) -> list[str]:
        file = tmp_path / "own.yaml"
        file.write_text(text, encoding="utf-8")
        target = ("--target", f"us={gateway}/ok", "--model", "kimi-k3")
        scale = ("--token-scale", "200", "--time-scale", "60", "--block-size", "16")
        known = ("--tokenizer", str(tokenizer_dir), "--settings", str(file))
        out = ("--out", str(tmp_path / "out"))
        return ["loadtest", "run", *target, *scale, *known, *out, *more]

    return make


def test_a_settings_file_changes_what_it_names_and_nothing_else(
    words: Words, tmp_path: Path
) -> None:
    """Options of the command stay options of the command."""
    text = "session: {history: live}\nresults: {slo: {ttft_ms: 9000}}\nreplay: {pauses: false}\n"
    more = ("--users", "2", "--duration", "2s", "--gpus", "us=8")
    assert main(words(text, *more)) in {0, 1, 2}
    settings = read_settings(tmp_path / "out" / "settings.json")
    assert (settings.session.history, settings.replay.pauses) == ("live", False)
    assert (settings.results.slo.ttft_ms, settings.results.gpus) == (9000, {"us": 8})
    assert (settings.replay.loop, settings.users) == (True, 2)


def test_all_faults_of_a_settings_file_are_told_at_once(
    words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its line and the nearest known key."""
    text = "harnes: {tools: true}\nreplay: {idle_cap_s: -1}\nclient: {nothing: 1}\n"
    assert main(words(text, "--users", "2")) == 3
    said = capsys.readouterr().err
    for place in ("own.yaml:1", "own.yaml:2", "own.yaml:3", "Did you mean 'harness'"):
        assert place in said


@pytest.mark.parametrize(
    ("text", "more", "named"),
    [
        (SEARCH, ("--users", "2"), "--users, search in --settings"),
        ("replay: {arrivals: recorded}", ("--search",), "--search, replay.arrivals"),
        ("replay: {loop: true}", ("--search", "--users", "2"), "--users, --search"),
        (SEARCH, ("--duration", "9s"), "--duration"),
        ("results: {gpus: {us: 4}}", ("--users", "2", "--gpus", "us=8"), "--gpus, results.gpus"),
        ("replay: {start_from: 0.5}", ("--users", "2"), "start_from"),
    ],
)
def test_one_thing_is_said_in_one_place(
    text: str, more: tuple[str, ...], named: str, words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which of two would win nobody could know."""
    assert main(words(text, *more)) == 3
    assert named in capsys.readouterr().err


def test_a_search_prints_the_limit_and_how_it_was_found(
    words: Words, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The double serves any number in time: the search ends at the most it may use."""
    assert main(words(SEARCH, "--search", "-o", "json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["found"]["users"] == 4
    assert [trial["users"] for trial in found["trials"]] == [2, 4, 4]
    assert (tmp_path / "out" / "report.html").exists()
