"""`k3fleet traffic`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import traffic_show as cli_traffic
from cli.main import main
from cli.traffic import COMMANDS
from loadtest.traffic import statistics as traffic_stats
from loadtest.traffic.profiles import known_profiles

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `k3fleet traffic …` in an empty folder; return what it prints, or its errors."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str, code: int = 0) -> str:
        assert main(["traffic", *words]) == code
        printed = capsys.readouterr()
        assert (printed.out if code else printed.err) == ""
        return printed.err if code else printed.out

    return call


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(name: str, run: Run) -> None:
    """Most people copy the example and change one word."""
    assert "Example:" in run(name, "--help")


def test_list_says_what_each_profile_is(run: Run) -> None:
    """Whoever starts a test chooses from it."""
    rows = json.loads(run("list", "-o", "json"))
    assert [row["name"] for row in rows] == known_profiles()
    table = run("list")
    assert all(row["about"] in table for row in rows)


def test_show_gives_the_same_numbers_to_people_and_programs(run: Run) -> None:
    """The table rounds, nothing more."""
    found = json.loads(run("show", "burst", "--sessions", "50", "-o", "json"))
    shown = run("show", "burst", "--sessions", "50")
    assert found["sessions"] == 50
    for rule, rate in found["attainable"].items():
        (line,) = [line for line in shown.splitlines() if f" {rule} " in line]
        assert f"{rate:.1%}" in line
    (steps,) = [line for line in shown.splitlines() if "steps per session" in line]
    assert str(round(found["steps_per_session"]["p99"])) in steps


def test_another_seed_draws_other_sessions(run: Run) -> None:
    """And the same seed the same ones."""
    one, again = (run("show", "burst", "--sessions", "20") for _ in range(2))
    assert one == again
    assert one != run("show", "burst", "--sessions", "20", "--seed", "2")


def test_a_profile_of_ones_own_is_shown(run: Run) -> None:
    """By its path, as it is given to a test."""
    Path("mine.yaml").write_text("extends: chat_assist\nname: mine\nsingle_turn_share: 1.0\n")
    found = json.loads(run("show", "mine.yaml", "--sessions", "20", "-o", "json"))
    assert (found["profile"], found["steps_per_session"]["mean"]) == ("mine", 1.0)


def test_all_mistakes_of_a_file_are_shown_at_once(run: Run) -> None:
    """With their lines, and exit code 3."""
    Path("mine.yaml").write_text("extends: chat_assist\nnmae: mine\ncancel_share: 7\n")
    said = run("show", "mine.yaml", code=3).splitlines()
    assert said[0].startswith("error: mine.yaml:3: cancel_share: 7 is out of range")
    assert said[1].startswith("error: mine.yaml:2: nmae: unknown key. Did you mean 'name'?")
    assert said[2] == "2 problems found, nothing was started."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chat_asist"], "Did you mean 'chat_assist'"),
        (["trace:sessions/"], "sessions"),
        (["trace:mine.yaml"], "mine.yaml"),
        (["burst", "--sessions", "0"], "0 is not in the range"),
        (["burst", "--sessions", "10000000000"], "is not in the range"),
    ],
)
def test_what_cannot_be_drawn_is_refused(run: Run, words: list[str], said: str) -> None:
    """A configuration error, not a bug."""
    assert said in run("show", *words, code=3)


def test_a_recording_is_shown_like_a_profile(run: Run) -> None:
    """Whoever brings a trace asks first what it would send."""
    rows = [
        {"timestamp": 1000 * n, "input_length": 1024, "output_length": 10 + n, "hash_ids": [7, n]}
        for n in range(3)
    ]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(run("show", "trace:mooncake:t.jsonl", "-o", "json"))
    assert (found["calls"], found["prompt_tokens"]["mean"], found["output_tokens"]["most"]) == (
        3, 1024, 12,
    )  # fmt: skip
    assert found["hit"] == pytest.approx(1 / 3)  # the first block of two calls of three
    shown = run("show", "trace:t.jsonl")
    assert "33.3% of tokens" in shown
    assert "3 calls" in shown


def test_a_part_of_a_recording_can_be_shown(run: Run) -> None:
    """The whole of it may take minutes."""
    rows = [
        {"timestamp": n, "input_length": 600, "output_length": 1, "hash_ids": [2 * n, 2 * n + 1]}
        for n in range(4)
    ]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(run("show", "trace:t.jsonl", "--sessions", "2", "-o", "json"))
    assert found["sessions"] == 2


def test_a_profile_without_end_says_that_it_was_cut(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statistics of three sessions must not pass for those of the thousand that were asked for."""
    for module in (cli_traffic, traffic_stats):
        monkeypatch.setattr(module, "MOST_CALLS", 50)
    (tmp_path / "long.yaml").write_text(
        "extends: interactive_agent\nname: long\nabout: long\n"
        "first_turn_steps: {median: 20, sigma: 0, max: 20}\nsingle_turn_share: 1\nsubagents:\n"
    )
    shown = " ".join(run("show", "long.yaml", "--sessions", "1000").split())
    assert "3 sessions, 50 calls" in shown
    assert "in session 3 of 1,000" in shown
    assert "note" not in run("show", "long.yaml", "--sessions", "2")


def test_listing_profiles_loads_nothing_heavy() -> None:
    """Whoever looks for a name should not wait for what only a load needs."""
    program = (
        "import sys; from cli.main import main; main(['traffic', 'list']); "
        "print([m for m in ('locust', 'gevent', 'pulumi', 'plotly', 'numpy') if m in sys.modules], "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stderr.decode().strip() == "[]"
