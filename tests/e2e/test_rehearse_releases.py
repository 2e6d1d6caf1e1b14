"""Releases that are not like the demo's are rehearsed to a verdict too, or refused at once."""

from __future__ import annotations

from typing import Any

import pytest
from cli_runs import Here
from house_fleet import double, mocker, write_house_fleet

pytestmark = pytest.mark.lab

SPLIT_FLEET = """\
apiVersion: k3fleet/v1
name: split
release: vllm-pd-2p1d
frontends: {replicas: 1}
regions:
  - name: here
    racks:
      - {id: r01, healthy_nodes: 6}
"""


def test_a_split_release_is_judged_by_both_its_jobs(here: Here) -> None:
    """Two replicas prefill and hold the cache, one decodes, and all three serve."""
    fleet = here.folder / "fleet.yaml"
    fleet.write_text(SPLIT_FLEET)
    ended = here.run("rehearse", str(fleet), "--duration", "30s", "--users", "8")
    assert ended.code == 0, ended.err + ended.out
    load = ended.report["load"]
    assert load["coverage"] == {"registered": 1.0, "served": 1.0}
    assert load["hit"]["ratio"] >= 0.95
    assert load["errors"] == 0
    *prefill, decode = load["replicas"]
    assert [replica["role"] for replica in load["replicas"]] == ["prefill", "prefill", "decode"]
    assert sum(replica["requests"] for replica in prefill) == load["requests"]
    assert (decode["requests"], decode["prompt_tokens"]) == (load["requests"], 0)


@pytest.mark.parametrize("custom", [double(), mocker()], ids=["openai", "dynamo"])
def test_a_house_engine_is_rehearsed_to_a_verdict(here: Here, custom: dict[str, Any]) -> None:
    """Asked straight or through frontends, it is judged by the same gates."""
    fleet = write_house_fleet(here.folder, custom)
    ended = here.run("rehearse", str(fleet), "--duration", "20s", "--users", "6")
    assert ended.code == 0, ended.err + ended.out
    report = ended.report
    assert report["verdict"] == "go"
    assert f"this machine runs its own command: {custom['command'][0]} " in ended.err
    assert report["load"]["errors"] == 0
    assert report["load"]["coverage"] == {"registered": 1.0, "served": 1.0}
    assert report["load"]["hit"]["reported_share"] == 1.0
    assert any("its image was not used" in text for text in report["mocked"])
    known = [replica["requests"] for replica in report["load"]["replicas"]]
    named = custom["registers"] == "dynamo"  # only Dynamo says who has answered
    assert all((requests is not None) == named for requests in known)


def test_a_command_that_fails_is_told_with_its_log(here: Here) -> None:
    """Not after five minutes of waiting."""
    broken = {**double(), "command": ["python3", "-c", "raise SystemExit('no such GPU')"]}
    ended = here.run("lab", "up", str(write_house_fleet(here.folder, broken)))
    assert ended.code == 6
    assert "started 3 times, process ended with code 1" in ended.err
    assert "no such GPU" in ended.err
    assert here.processes() == []


def test_a_program_that_is_not_here_is_refused_at_once(here: Here) -> None:
    """Nothing was started that would have to be ended."""
    missing = {**double(), "command": ["house-serve-not-here"]}
    ended = here.run("rehearse", str(write_house_fleet(here.folder, missing)))
    assert ended.code == 3
    assert "'house-serve-not-here' is not on this machine's PATH" in ended.err
    assert not (here.work_dir / "lab").exists()
