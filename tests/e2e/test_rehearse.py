"""The launch rehearsal, end to end: everything real but GPUs and time."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from cli_runs import Here

pytestmark = pytest.mark.lab

TRAFFIC = ("--duration", "20s", "--users", "10")
Until = Callable[[Callable[[], bool], subprocess.Popen[str]], None]


def mockers(here: Here) -> list[psutil.Process]:
    return here.processes("dynamo.mocker")


def requests_sent(here: Here) -> int:
    path = here.work_dir / "runs" / "latest" / "requests.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_sound_fleet_is_a_go_with_seventeen_nodes(here: Here):
    """The main job: packing, hit rate and the verdict, with one node of a rack broken."""
    fleet = here.fleet(nodes=7)
    text = fleet.read_text().replace(", replicas: 4", "")
    fleet.write_text(text)  # 7 healthy nodes hold 3 replicas, one node stays idle
    ended = here.run("rehearse", str(fleet), *TRAFFIC)
    assert ended.code == 0, ended.err + ended.out
    report = ended.report
    assert report["verdict"] == "go"
    assert [rack["replicas"] for rack in report["packing"]["racks"]] == [3, 3]
    used = [n for rack in report["packing"]["racks"] for n in rack["nodes"] if n["replica"]]
    assert len(used) == 12
    assert all(node["healthy"] for node in used)
    assert report["load"]["hit"]["ratio"] >= 0.95
    assert report["load"]["errors"] == 0
    assert report["load"]["oracle"]["over_prediction"] == 0
    assert {replica["name"] for replica in report["load"]["replicas"] if replica["requests"]} == {
        *(f"use1-r01-{slot}" for slot in range(3)),
        *(f"euw1-r01-{slot}" for slot in range(3)),
    }
    assert [step["name"] for step in report["steps"]] == [
        *("tools", "cluster", "provision", "packing", "engines", "traffic", "judge", "end"),
    ]


def test_round_robin_fails_the_hit_rate_gate(here: Here):
    """Without KV routing the same fleet loses its cache: the gate has to see it."""
    fleet = here.fleet(router="{mode: round-robin}")
    # Every miss costs seconds of prefill: 45 s give enough requests to judge.
    ended = here.run("rehearse", str(fleet), "--duration", "45s", "--users", "20")
    assert ended.code == 1, ended.err + ended.out
    failed = [gate["id"] for gate in ended.report["gates"] if gate["status"] == "fail"]
    assert failed == ["cache-hit-ratio"]


def test_a_killed_engine_is_lost_and_recovers(here: Here, until: Until):
    """A dead engine costs its cache, not the launch; the report tells when and which."""
    process = here.start("rehearse", str(here.fleet()), "--duration", "40s", "--users", "10")
    until(lambda: requests_sent(here) > 60, process)
    victim = mockers(here)[0]
    pod = victim.environ()["POD_NAME"]
    victim.kill()
    ended = here.end(process)
    told = [(event["what"], event["replica"]) for event in ended.report["events"]]
    assert told == [("lost", pod.removesuffix("-0")), ("recovered", pod.removesuffix("-0"))]
    assert ended.report["load"]["errors"] == 0
    assert ended.code == 0, ended.err + ended.out


@pytest.mark.parametrize("step", ["cluster", "provision", "engines", "traffic"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_any_step_leaves_nothing(
    here: Here, until: Until, step: str, number: signal.Signals
):
    """Ctrl-C is how rehearsals end on a bad day; the next one must start clean."""
    process = here.start("rehearse", str(here.fleet()), *TRAFFIC)
    reached = {
        "cluster": (here.work_dir / "lab.json").exists,
        "provision": (here.work_dir / "lab" / "pulumi" / "state").exists,
        "engines": lambda: bool(mockers(here)),
        "traffic": lambda: requests_sent(here) > 10,
    }
    until(reached[step], process)
    process.send_signal(number)
    ended = here.end(process)
    assert ended.code == 128 + number, ended.err
    assert "Traceback" not in ended.err
    assert here.processes() == []
    assert not (here.work_dir / "lab.json").exists()
    assert ended.report["verdict"] == "invalid"


def test_a_killed_control_plane_ends_the_run_and_the_next_one_works(here: Here, until: Until):
    """A crashed API server must be named, cleaned up, and forgotten."""
    fleet = str(here.fleet())
    process = here.start("rehearse", fleet, *TRAFFIC)
    until(lambda: requests_sent(here) > 10, process)
    here.processes("--service-account-issuer")[0].kill()  # only the API server has it
    ended = here.end(process)
    assert ended.code == 6
    assert "kube-apiserver: ended with code -9" in ended.err
    assert here.processes() == []
    assert here.run("rehearse", fleet, *TRAFFIC).code == 0


def test_a_run_that_was_killed_outright_does_not_block_the_next(here: Here, until: Until):
    """kill -9 leaves processes; the next run finds them by their mark and ends them."""
    fleet = str(here.fleet())
    process = here.start("rehearse", fleet, *TRAFFIC)
    until(lambda: bool(mockers(here)), process)
    process.kill()
    process.communicate()
    assert mockers(here)
    ended = here.run("rehearse", fleet, *TRAFFIC)
    assert ended.code == 0, ended.err
    assert "processes that an earlier run left" in ended.err


def test_recorded_sessions_replay_with_the_real_tokenizer(here: Here):
    """Real traffic and the real vocabulary: the nearest to production that one machine has."""
    shared = Path(__file__).parents[3] / "shared" / "data"
    trace = shared / "traces" / "kv-cache-tester" / "trace_0624.json"
    tokenizer = shared / "kimi-tokenizer"
    if not trace.exists() or not tokenizer.exists():
        pytest.skip("the recorded traces and the real tokenizer are not on this machine")
    ended = here.run(
        *("rehearse", str(here.fleet()), "--traffic", f"trace:{trace}"),
        *("--tokenizer", str(tokenizer), *TRAFFIC, "-o", "json"),
    )
    assert ended.code == 0, ended.err + ended.out
    report = json.loads(ended.out)
    assert report["load"]["hit"]["ratio"] >= 0.95
    assert report["load"]["oracle"]["length_exact"] == 1.0
