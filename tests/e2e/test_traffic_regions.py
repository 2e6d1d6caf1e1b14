"""Regions taken out of traffic in the lab: sessions move in slices, or all at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from cli_runs import Here
from lightkube.resources.core_v1 import Node
from patience import wait_until
from region_sessions import EAST, FLEET, WEST, Sessions, busiest, moves, talk_in
from rollout_lab import Lab

from fleet.load import load_fleet
from lab.mounts import MOUNTED_S

pytestmark = pytest.mark.lab

FILE = "fleet.yaml"
# What is true of the sessions below: of a mocked replica's speed, and of prompts 16 times as long.
STRATEGY = """\
apiVersion: k3fleet/v1
floor: {region: 1.0}
assumed: {sessions_per_replica: 20, context_tokens: 13000, prefill_tokens_per_s: 21700}
"""
SESSIONS = {EAST: 8, WEST: 20}
WORDS, PAUSE_S = 100, 3.0  # about 800 tokens, which stand for 13,000
WINDOW_S = 5.0
TOUCH = ("--strategy", "strategy.yaml", "--yes")


@pytest.fixture(scope="module")
def lab(shared: Here) -> Iterator[Lab]:
    """Bring up a replica in each of two regions."""
    (shared.folder / FILE).write_text(FLEET)
    (shared.folder / "strategy.yaml").write_text(STRATEGY)
    ended = shared.run("lab", "up", FILE, "-o", "json")
    assert ended.code == 0, ended.err
    yield Lab(json.loads(ended.out), load_fleet(shared.folder / FILE).model.repo)
    assert shared.run("lab", "down", FILE).code == 0


@pytest.fixture(scope="module")
def sessions(lab: Lab) -> Iterator[Sessions]:
    """Let sessions run through all tests of this file; each begins with a warm cache."""
    with Sessions(talk_in(lab, WORDS, PAUSE_S)).running(SESSIONS) as running:
        yield running


def all_answered_by(sessions: Sessions, home: str, region: str, since: float) -> bool:
    """Tell whether the latest call of each session of a region was answered by a region."""
    latest = sessions.latest(home).values()
    return all(call.region == region and call.began_s > since for call in latest)


def arrivals(sessions: Sessions) -> list[float]:
    """Give the moments at which the sessions of the west came to the east."""
    return sorted(
        min(c.began_s for c in sessions.calls if c.session == name and c.region == EAST)
        for name in sessions.latest(WEST)
    )


def shift(here: Here, command: str, region: str, *words: str) -> str:
    ended = here.run("traffic", command, FILE, region, *TOUCH, *words)
    assert ended.code == 0, ended.err
    return ended.err


def test_sessions_move_in_slices_and_each_once(shared: Here, lab: Lab, sessions: Sessions) -> None:
    """Nobody sees a fault, and the receiver is asked for no more than it was promised."""
    began = time.monotonic()
    said = shift(shared, "drain", WEST)
    ended = time.monotonic()
    assert said.count("of the sessions go elsewhere") == 20
    wait_until(lambda: all_answered_by(sessions, WEST, EAST, ended), "not all sessions have moved")
    moved = [moves(sessions.calls, name) for name in sessions.latest(WEST)]
    assert moved == [[WEST, EAST]] * SESSIONS[WEST]
    assert [moves(sessions.calls, name) for name in sessions.latest(EAST)] == [[EAST]] * 8
    assert sessions.faults == []
    firsts = arrivals(sessions)
    assert max(later - earlier for earlier, later in pairwise(firsts)) < (ended - began) / 2


def test_a_dead_region_gives_all_its_sessions_away_at_once(
    shared: Here, lab: Lab, sessions: Sessions
) -> None:
    """Its own and those it had taken over: a storm, against what came in slices before."""
    paced = busiest(sessions.calls, EAST, WINDOW_S, arrivals(sessions)[0])
    [cluster] = [c for c in lab.clusters if c.region == EAST]
    for node in cluster.client.list(Node):
        assert node.metadata
        patch = {"spec": {"unschedulable": True}}
        cluster.client.patch(Node, str(node.metadata.name), patch)
    [engine] = [p for p in shared.processes("dynamo.mocker") if f"/{EAST}/" in p.cwd()]
    engine.kill()
    wait_until(lambda: any(EAST in fault for _, fault in sessions.faults), "no session has failed")
    cost = shared.run("traffic", "drain", FILE, EAST, *TOUCH, "--at-once", "--dry-run")
    assert "at once: all receivers compute nothing else for" in cost.out
    began = time.monotonic()
    shift(shared, "restore", WEST, "--at-once")
    shift(shared, "drain", EAST, "--at-once")
    ended = time.monotonic()
    wait_until(
        lambda: all(all_answered_by(sessions, home, WEST, ended) for home in SESSIONS),
        "not all sessions have moved",
    )
    assert not [fault for at, fault in sessions.faults if at > ended + MOUNTED_S]
    assert busiest(sessions.calls, WEST, WINDOW_S, began) > 2 * paced > 0
