"""A rollout in the lab: real Pulumi, real router, real requests, and a driver that dies."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import yaml
from cli_runs import Here
from rollout_lab import PATIENCE_S, Lab, phase_s, wait_for_phase

from fleet.load import load_fleet, load_release
from fleet.release import release_id

pytestmark = pytest.mark.lab

FLEET = """\
apiVersion: k3fleet/v1
name: roll
release: ./old.yaml
frontends: {replicas: 1}
regions:
  - name: east
    racks: [{id: e01, healthy_nodes: 4}]
  - name: west
    racks: [{id: w01, healthy_nodes: 4}]
"""
STRATEGY = """\
apiVersion: k3fleet/v1
waves:
  - {scope: canary, soak: 2s, gates: {min_requests: 5}}
  - {scope: rest, soak: 1s, gates: {min_requests: 5}}
at_once: {per_rack: 1, per_region: 1, regions: 2}
floor: {rack: 0.5, region: 0.5}
deadlines: {ready: 45s, registered: 30s, gates: 60s}
reruns: 0
"""
STORY_TOKENS = 1500  # about 14 s: it goes on when the drain begins, and ends in its budget
RELEASES = {
    "old": {"drain_s": "30s"},
    "batch": {"drain_s": "30s", "max_num_seqs": 48},
    "third": {"drain_s": "30s", "max_num_seqs": 40},
    "cards": {"drain_s": "30s", "max_num_seqs": 32},
    "apart": {"drain_s": "30s", "kv_dtype": "bfloat16"},
}


@pytest.fixture(scope="module")
def lab(shared: Here) -> Iterator[Lab]:
    """Bring up two regions of two replicas."""
    for name, fields in RELEASES.items():
        text = yaml.safe_dump({"extends": "vllm-tp8-dcp8", "name": name, **fields})
        (shared.folder / f"{name}.yaml").write_text(text)
    (shared.folder / "strategy.yaml").write_text(STRATEGY)
    fleet = shared.folder / "fleet.yaml"
    fleet.write_text(FLEET)
    ended = shared.run("lab", "up", str(fleet), "-o", "json")
    assert ended.code == 0, ended.err
    yield Lab(json.loads(ended.out), load_fleet(fleet).model.repo)
    assert shared.run("lab", "down", str(fleet)).code == 0


def identity(here: Here, name: str) -> str:
    return release_id(load_release(f"./{name}.yaml", beside=here.folder / "fleet.yaml"))


def start_words(name: str, *more: str) -> list[str]:
    return [
        *("rollout", "start", "fleet.yaml", f"./{name}.yaml"),
        *("--strategy", "strategy.yaml", "--yes", *more),
    ]


def record(here: Here, number: int) -> Path:
    return here.work_dir / "lab" / "rollouts" / f"{number:04}.jsonl"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (start_words("apart"), "kv_dtype must not differ"),
        (start_words("batch")[:-1], "Give --yes"),
        (["rollout", "resume", "fleet.yaml"], "no rollout was started"),
        (["rollback", "fleet.yaml", "--yes"], "no rollout was started"),
    ],
)
def test_what_cannot_be_done_is_refused_first(
    shared: Here, lab: Lab, words: list[str], why: str
) -> None:
    """Before there is a record, and before anything is touched."""
    before = lab.leaders()
    ended = shared.run(*words)
    assert (ended.code, why in ended.err) == (3, True), ended.err
    assert not record(shared, 1).exists()
    assert lab.leaders() == before


def test_every_replica_gets_the_release_once_and_nobody_fails(shared: Here, lab: Lab) -> None:
    """Under requests: the floor holds at the API server, and no pod is made anew in between."""
    before = lab.leaders()
    heard: list[str] = []
    story = threading.Thread(target=lab.stream, args=("e01-0", STORY_TOKENS, heard))
    story.start()
    with lab.watched() as seen:
        ended = shared.run(*start_words("batch"))
    story.join(timeout=60)
    assert ended.code == 0, ended.err
    last, done = heard[-2:]
    assert done == "data: [DONE]"
    # Not the chunks are counted: tokens that only together make a character come as one.
    usage = json.loads(last.removeprefix("data: "))["usage"]
    assert usage["completion_tokens"] == STORY_TOKENS
    assert phase_s(record(shared, 1), "drain") > 2
    assert "done" in ended.out
    assert set(lab.releases().values()) == {identity(shared, "batch")}
    assert {name: len(uids) for name, uids in seen.pods.items()} == dict.fromkeys(before, 2)
    assert seen.fewest == {"east": 1, "west": 1}
    assert seen.answers > 20
    assert seen.faults == []


def test_a_killed_driver_is_followed_by_the_next(shared: Here, lab: Lab) -> None:
    """Killed four times, in two updates among them, and interrupted; nothing is done twice."""
    ends = (
        ("drain", dies),
        ("apply", dies_with_pulumi),
        ("ready", dies_while_another_asks),
        ("smoke", is_interrupted),
        ("apply", dies_and_leaves_pulumi),
    )
    with lab.watched() as seen:
        words, length = start_words("third", "--region", "east"), 0
        for phase, end in ends:
            driver = shared.start(*words)
            length = wait_for_phase(record(shared, 2), phase, length)
            end(shared, driver)
            words = ["rollout", "resume", "fleet.yaml"]
        second = shared.run(*start_words("batch"))
        assert (second.code, "Finish it first" in second.err) == (3, True), second.err
        ended = shared.run(*words)
    assert ended.code == 0, ended.err
    releases = lab.releases()
    assert {releases["e01-0"], releases["e01-1"]} == {identity(shared, "third")}
    assert {releases["w01-0"], releases["w01-1"]} == {identity(shared, "batch")}
    counts = {name: len(uids) for name, uids in seen.pods.items()}
    assert counts == {"e01-0": 2, "e01-1": 2, "w01-0": 1, "w01-1": 1}
    assert seen.fewest["east"] == 1
    assert seen.faults == []


def dies(here: Here, driver: subprocess.Popen[str]) -> None:
    driver.kill()
    here.end(driver)


def dies_with_pulumi(here: Here, driver: subprocess.Popen[str]) -> None:
    """As when the machine loses power: the stack stays locked, its update half done."""
    wait_for_lock(here)
    driver.kill()
    for process in here.processes():
        with suppress(psutil.NoSuchProcess):
            if process.name().startswith("pulumi"):
                process.kill()
    here.end(driver)
    assert list(locks(here))


def dies_and_leaves_pulumi(here: Here, driver: subprocess.Popen[str]) -> None:
    """The update goes on without its driver; the next one has to wait for it."""
    wait_for_lock(here)
    dies(here, driver)


def dies_while_another_asks(here: Here, driver: subprocess.Popen[str]) -> None:
    """The second one is told who drives."""
    busy = here.run("rollout", "resume", "fleet.yaml")
    assert (busy.code, f"driven by pid {driver.pid}" in busy.err) == (9, True), busy.err
    dies(here, driver)


def is_interrupted(here: Here, driver: subprocess.Popen[str]) -> None:
    """Ctrl-C says how to go on."""
    driver.send_signal(signal.SIGINT)
    ended = here.end(driver)
    assert (ended.code, "rollout resume" in ended.err) == (130, True), ended.err


def locks(here: Here) -> Iterator[Path]:
    return (here.work_dir / "lab/pulumi/state/.pulumi/locks").rglob("serving-east/*.json")


def wait_for_lock(here: Here) -> None:
    """Wait until the update itself runs, behind its preview."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(locks(here)):
        assert time.monotonic() < deadline, "no update has begun"
        time.sleep(0.02)


def test_a_release_that_never_gets_ready_is_held_and_turned_back(shared: Here, lab: Lab) -> None:
    """A house of cards: it only takes its canary away, and the way back needs no help of it."""
    hasty = STRATEGY.replace("ready: 45s", "ready: 25s")
    (shared.folder / "strategy.yaml").write_text(hasty)
    cards, before = identity(shared, "cards"), lab.releases()
    with falling(shared, lab, cards):
        ended = shared.run(*start_words("cards", "--region", "west"))
        assert ended.code == 1, ended.err
        assert "after the deadline `ready`" in ended.out
        told = json.loads(shared.run("rollout", "status", "fleet.yaml", "-o", "json").out)
        assert (told["status"], told["phase"], told["step"]) == ("held", "ready", ["w01-0"])
        rows = {row["replica"]: row for row in told["replicas"]}
        assert rows["w01-0"]["assigned"] == cards
        assert rows["w01-0"]["state"] != "serves"
        assert rows["w01-1"]["state"] == rows["e01-0"]["state"] == "serves"
        assert "k3fleet rollback" in told["ways_on"]
        back = shared.run("rollback", "fleet.yaml", "--yes")
    assert back.code == 0, back.err
    assert lab.releases() == before


@contextmanager
def falling(here: Here, lab: Lab, release: str) -> Iterator[None]:
    """Let each engine of a release end as soon as it has started."""
    stop = threading.Event()

    def kill_all() -> None:
        while not stop.wait(0.2):
            folders = [
                f"/pods/{pod.name}-{pod.uid[:8]}"
                for cluster in lab.clusters
                for pod in cluster.engines()
                if pod.leader and pod.release == release
            ]
            for process in here.processes() if folders else ():
                with suppress(psutil.NoSuchProcess):
                    if process.cwd().endswith(tuple(folders)):
                        process.kill()

    thread = threading.Thread(target=kill_all)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=PATIENCE_S)
