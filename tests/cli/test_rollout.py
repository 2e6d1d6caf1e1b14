"""`k3fleet rollout` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.main import main

DEMO = str(Path(__file__).parents[2] / "fleets/demo.yaml")


def test_every_step_is_a_line_with_what_serves_meanwhile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What an SRE reads before saying yes."""
    assert main(["rollout", "plan", DEMO, "vllm-tp8-dcp8-dspark"]) == 0
    output = capsys.readouterr().out
    assert "use1-r01-0" in output
    assert output.count("8 of 9") == 18


def test_a_release_that_does_not_fit_the_fleet_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lws backend cannot start TensorRT-LLM: said now, not when the canary is drained."""
    assert main(["rollout", "plan", DEMO, "trtllm-tep8"]) == 3
    assert "Write backend: dgd" in capsys.readouterr().err
    assert main(["rollout", "plan", DEMO, str(tmp_path / "none.yaml")]) == 3
    assert "none.yaml" in capsys.readouterr().err


def test_a_release_file_is_found_from_where_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fleet file lies elsewhere, and paths on a command line are not relative to it."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("extends: vllm-tp8-dcp8\nname: mine\nmax_num_seqs: 64\n")
    assert main(["rollout", "plan", DEMO, "mine.yaml", "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["new"].startswith("mine-")
    assert plan["side_by_side"] is True


@pytest.mark.parametrize(
    "words",
    [
        ["rollout", "start", DEMO, "vllm-tp8-dcp8-dspark", "--yes"],
        ["rollout", "status", DEMO],
        ["rollout", "resume", DEMO],
        ["rollback", DEMO, "--yes"],
        ["history", DEMO],
        ["rollout", "sync", DEMO],
    ],
)
def test_without_a_lab_and_a_kubeconfig_both_ways_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    """An exit code of its own tells it from a bad file."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main([*words, "--work-dir", str(tmp_path)]) == 6
    said = capsys.readouterr().err
    assert "k3fleet lab up" in said
    assert "--kubeconfig" in said
