"""Releases that must not come through, rolled out in the lab: each is caught at the canary."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cli_runs import Here
from rollout_lab import FILE, Lab, lab_of, latest, record, start_words, wait_for_phase

from fleet.rollout.record import Asked, Ended
from infra.rollout.journal import Journal

pytestmark = pytest.mark.lab

FLEET = """\
apiVersion: k3fleet/v1
name: bad
release: ./good.yaml
frontends: {replicas: 1}
regions:
  - name: east
    racks: [{id: e01, healthy_nodes: 4}]
"""
STRATEGY = """\
apiVersion: k3fleet/v1
waves:
  - scope: canary
    soak: 1s
    gates: {min_requests: 10, min_replica_requests: 10, hit_recovery: 5s}
  - scope: rest
    soak: 1s
    gates: {min_requests: 10, min_replica_requests: 10, hit_recovery: 5s}
at_once: {per_rack: 1, per_region: 1, regions: 1}
floor: {rack: 0.5, region: 0.5}
deadlines: {ready: 60s, registered: 60s, gates: 2m}
on_fail: roll-back
reruns: 0
"""
# The image is another one: what is wrong with it shows when it runs, and nowhere else. Frontends
# change too, but only behind replicas that have come through.
IMAGE = f"example.com/rehearsed/engine@sha256:{'b' * 64}"
RELEASES = {
    "good": {"drain_s": "5s"},
    "bad": {"drain_s": "5s", "engine": {"image": IMAGE}, "router": {"migration_limit": 7}},
}
STEP_S = 600.0  # far above what a step takes
CANARY, OTHER = "e01-0", "e01-1"


@pytest.fixture(scope="module")
def lab(shared: Here) -> Iterator[Lab]:
    """Bring up one region of two replicas."""
    with lab_of(shared, FLEET, STRATEGY, RELEASES) as lab:
        yield lab


@pytest.mark.parametrize(
    ("fault", "phase", "why"),
    [
        ("never-ready", "ready", "after the deadline `ready`"),
        ("blocks", "registered", "kv_cache_block_size is 64, not 128"),
        ("garbage", "smoke", "e01-0: plain: does not say 42"),
        ("leaks", "smoke", "max_marker_leaks: 5 of 5 answers to our own questions"),
        ("slow", "gates", "max_ttft_ratio: "),
    ],
)
def test_a_bad_release_is_caught_at_the_canary_and_turned_back(
    shared: Here,
    lab: Lab,
    fault: str,
    phase: str,
    why: str,
    record_property: Callable[[str, object], None],
) -> None:
    """The other replica never has it, and serves all the while."""
    before = lab.releases()
    with lab.watched() as seen:
        ended = shared.run(*start_words("bad", "--fault", fault))
    assert ended.code == 1, ended.err
    entries = Journal(record(shared, latest(shared))).read()
    failed = next(e for e in entries if isinstance(e, Ended) and e.outcome == "failed")
    assert failed.phase == phase
    assert why in failed.why
    assert not any(isinstance(entry, Asked) for entry in entries)  # nobody had to be awake
    assert "rolled-back" in ended.out
    assert lab.releases() == before
    assert len(seen.pods[OTHER]) == 1
    assert seen.fewest == {"east": 1}
    assert seen.faults == []
    record_property("caught_s", round(failed.at_s - entries[0].at_s))
    record_property("back_s", round(entries[-1].at_s - entries[0].at_s))


def migration_limit(lab: Lab) -> int:
    """Read how the frontends of the region are told to migrate requests."""
    [item] = [i for n, i in lab.clusters[0].deployments().items() if n.startswith("frontend")]
    args = item["spec"]["template"]["spec"]["containers"][0]["args"]
    return int(args[args.index("--migration-limit") + 1])


def test_the_same_release_comes_through_once_its_fault_is_gone(shared: Here, lab: Lab) -> None:
    """So it was the fault that stopped it; frontends come last, and outlive a killed driver."""
    assert migration_limit(lab) == 3
    number = latest(shared) + 1
    with lab.watched() as seen:
        driver = shared.start(*start_words("bad"))
        behind = 0
        for _ in (CANARY, OTHER, "frontends"):
            behind = wait_for_phase(record(shared, number), "apply", behind, STEP_S)
        driver.kill()
        driver.wait(timeout=30)
        ended = shared.run("rollout", "resume", FILE)
    assert ended.code == 0, ended.err + ended.out
    assert seen.faults == []
    assert migration_limit(lab) == 7
    entries = Journal(record(shared, number)).read()
    gates = [e.why for e in entries if isinstance(e, Ended) and e.phase == "gates"]
    assert "max_ttft_ratio: " in gates[0]
    assert "max_marker_leaks: 0, max_empty_answers: 0, in 5 answers" in gates[0]
    assert len(gates) == 3


def test_frontends_are_turned_back_before_the_replicas(shared: Here, lab: Lab) -> None:
    """They were the last to change; the replicas keep what they have when only these are turned."""
    before = lab.leaders()
    with lab.watched() as seen:
        ended = shared.run("rollback", FILE, "--step", "2", "--yes")
    assert ended.code == 0, ended.err + ended.out
    assert (seen.faults, migration_limit(lab), lab.leaders()) == ([], 3, before)
