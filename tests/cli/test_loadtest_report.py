"""Saved runs are judged again, compared, and sized without sending anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import make_settings, report_of

from cli.loadtest import COMMANDS
from cli.main import main
from loadtest.judge.sizing import closed_loop, pace_of
from loadtest.play.load_run import make_traffic
from loadtest.prompt.words import read_vocabulary
from loadtest.report.document import read_load_report
from loadtest.report.wording import conditions
from loadtest.traffic.scale import Seeds

SavedRun = Callable[..., Path]
DEMO = str(Path(__file__).parents[2] / "fleets" / "demo.yaml")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most people copy the example and change one word."""
    assert main(["loadtest", name, "--help"]) == 0
    assert f"k3fleet loadtest {name}" in capsys.readouterr().out


def test_other_gates_give_another_verdict(saved_run: SavedRun) -> None:
    """What a run showed stays; what is asked of it may change."""
    folder = saved_run()
    assert main(["loadtest", "report", str(folder), "--gates", "endpoint"]) == 0
    unmeasured = folder.parent / "unmeasured.yaml"
    unmeasured.write_text(
        "extends: endpoint\n"
        "gates: [{id: t, title: T, kind: slo, metric: regions.ap.requests, op: '>=', limit: 1,"
        " why: w}]\n"
    )
    assert main(["loadtest", "report", str(folder), "--gates", str(unmeasured)]) == 2
    strict = folder.parent / "strict.yaml"
    strict.write_text(
        "extends: endpoint\n"
        "gates: [{id: t, title: T, kind: slo, metric: ttft_ms.p95, op: '<=', limit: 1, why: w}]\n"
    )
    assert main(["loadtest", "report", str(folder), "--gates", str(strict)]) == 1


def test_the_report_names_the_gates_that_judged(saved_run: SavedRun) -> None:
    """The command is that of the run, which other gates may have judged."""
    folder = saved_run()
    main(["loadtest", "report", str(folder), "--gates", "launch"])
    assert report_of(folder)["gate_set"] == "launch"
    assert "Judged by the gates <code>launch</code>" in (folder / "report.html").read_text()
    own = folder.parent / "own.yaml"
    own.write_text("extends: endpoint\n")
    main(["loadtest", "report", str(folder), "--gates", str(own)])
    assert report_of(folder)["gate_set"] == str(own)


def test_gates_for_the_real_load_say_that_this_was_none(saved_run: SavedRun) -> None:
    """Their limits are of whole contexts, not of sixteenths."""
    small = saved_run("small")
    real = saved_run("real", token_scale=1, time_scale=1)
    for folder, count in ((small, 1), (real, 0)):
        main(["loadtest", "report", str(folder), "--gates", "launch"])
        notes = report_of(folder)["notes"]
        assert sum("meant for real lengths" in note for note in notes) == count
    assert "lengths were divided by 16" in (small / "report.html").read_text()
    assert conditions(read_load_report(report_of(real))) == ""


def test_the_report_can_go_elsewhere(saved_run: SavedRun, tmp_path: Path) -> None:
    """The folder of the run may be somebody else's."""
    folder = saved_run()
    before = sorted(folder.iterdir())
    main(["loadtest", "report", str(folder), "--gates", "endpoint", "--out", str(tmp_path / "o")])
    assert (tmp_path / "o" / "report.html").exists()
    assert sorted(folder.iterdir()) == before


def test_the_report_of_a_rehearsal_is_not_replaced(
    saved_run: SavedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds racks and steps, which nobody can compute again."""
    folder = saved_run()
    (folder / "report.json").write_text('{"fleet": "demo", "steps": []}')
    assert main(["loadtest", "report", str(folder)]) == 3
    assert "--out" in capsys.readouterr().err


def test_the_report_of_somebody_else_is_not_replaced(
    saved_run: SavedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor called what it is not."""
    folder = saved_run()
    (folder / "report.json").write_text('{"kind": 5}')
    assert main(["loadtest", "report", str(folder)]) == 3
    assert "no report of a load test (kind: 5)" in capsys.readouterr().err


def test_a_folder_without_files_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what was looked for."""
    assert main(["loadtest", "report", str(tmp_path)]) == 3
    assert "settings.json: is missing" in capsys.readouterr().err


def test_a_comparison_says_each_figure(
    saved_run: SavedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0: nothing is worse."""
    assert (
        main(["loadtest", "compare", str(saved_run("a")), str(saved_run("b")), "-o", "json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["paired"], found["pairs"]) == (True, 60)
    assert {row["word"] for row in found["differences"]} == {"within noise"}


def test_runs_of_different_traffic_are_not_compared_unless_forced(
    saved_run: SavedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another seed is another load, and every figure of it differs."""
    a, b = str(saved_run("a")), str(saved_run("b", seed=2))
    assert main(["loadtest", "compare", a, b]) == 3
    assert "seed: 1 and 2" in capsys.readouterr().err
    assert main(["loadtest", "compare", a, b, "--force"]) == 2  # one slice of time says nothing
    said = capsys.readouterr().out
    assert "no pairs" in said
    assert all(text in said for text in ("A: a", "B: b", "B is", "B: "))


def test_few_sessions_are_not_judged(saved_run: SavedRun) -> None:
    """Exit code 2: could not be compared."""
    a, b = (str(saved_run(name, count=2)) for name in "ab")
    assert main(["loadtest", "compare", a, b]) == 2


@pytest.mark.parametrize(
    ("words", "cores"),
    [
        (["--output-tokens-per-s", "100000"], 20),
        (["--output-tokens-per-s", "100000", "--tokens-per-chunk", "3"], 7),
        (["--output-tokens-per-s", "1"], 1),
    ],
)
def test_cores_follow_from_the_rate(
    words: list[str], cores: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output tokens/s ÷ tokens per chunk ÷ 5,000, rounded up."""
    assert main(["loadtest", "size", *words, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cores"] == cores


def test_more_agents_need_more_cores(capsys: pytest.CaptureFixture[str]) -> None:
    """The rate of an agent follows from its traffic, as does that of a thousand."""
    rates = []
    for users in ("100", "1000"):
        main(["loadtest", "size", "--fleet", DEMO, "--users", users, "-o", "json"])
        rates.append(json.loads(capsys.readouterr().out)["output_tokens_per_s"])
    assert rates[1] == pytest.approx(10 * rates[0], rel=0.01)
    assert 0 < rates[0] < 100 * 100  # no answer is faster than 100 tokens/s


def test_the_scales_of_a_lab_change_its_size(
    tmp_path: Path, tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run` sizes at the scales that it sends with, and the two must agree."""
    words = ("--users", "500", "--token-scale", "16", "--time-scale", "60")
    main(["loadtest", "size", "--fleet", DEMO, *words, "-o", "json"])
    found = json.loads(capsys.readouterr().out)["output_tokens_per_s"]
    settings = make_settings(tmp_path, tokenizer_dir=tokenizer_dir, users=500)
    assert (settings.token_scale, settings.time_scale) == (16, 60)
    traffic = make_traffic(settings, read_vocabulary(tokenizer_dir), Seeds(seed=1, salt="sizing"))
    assert found == pytest.approx(closed_loop(500, pace_of(traffic)), abs=0.1)


@pytest.mark.parametrize(
    "words",
    [[], ["--output-tokens-per-s", "5", "--fleet", DEMO], ["--output-tokens-per-s", "-1"],
     ["--output-tokens-per-s", "5", "--tokens-per-chunk", "0"],
     ["--output-tokens-per-s", "5", "--tokens-per-chunk", "1e-320"],
     ["--output-tokens-per-s", "1e308"],
     ["--fleet", DEMO, "--traffic", "trace:x"]],
)  # fmt: skip
def test_unclear_sizes_are_refused(words: list[str]) -> None:
    """One rate, from one place."""
    assert main(["loadtest", "size", *words]) == 3
