"""A rollout in the lab: real Pulumi, real router, real requests, and a driver that dies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import Here
from patience import wait_until
from region_sessions import Sessions
from rollout_deaths import cordoned, frozen, is_terminated, kill_engine, restart_frontend
from rollout_fleet import FLEET, RELEASES, STRATEGY
from rollout_kills import (
    FIRST_STEP,
    LAST_STEP,
    SECOND_STEP,
    WAY_BACK,
    Killed,
    came_well,
    not_as_recorded,
)
from rollout_lab import (
    FILE,
    PATIENCE_S,
    Lab,
    copied,
    identity,
    joined,
    lab_of,
    latest,
    phase_s,
    record,
    start_words,
    wait_for_event,
    wait_for_phase,
)
from rollout_sessions import drained_at, known_sets, sides, talk_by_replica

from fleet.rollout.record import PHASES

pytestmark = pytest.mark.lab

AWAY_S = 30.0
SESSIONS = 8
STORY_TOKENS = 1500  # about 14 s: it goes on when the drain begins, and ends in its budget


@pytest.fixture(scope="module")
def lab(shared: Here) -> Iterator[Lab]:
    """Bring up two regions of two replicas."""
    with lab_of(shared, FLEET, STRATEGY, RELEASES) as lab:
        yield lab


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([w for w in start_words("batch") if w != "--yes"], "Give --yes"),
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


def test_the_report_has_figures_of_all_of_it(shared: Here, lab: Lab) -> None:
    """Of both regions, while the driver drove; frontends counted no error either."""
    ended = shared.run("rollout", "report", FILE, "--rollout", "1", "-o", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["status"], all(step["whole"] for step in told["steps"])) == ("done", True)
    fewest = {region["name"]: region["fewest"] for region in told["regions"]}
    assert fewest == {"east": 1, "west": 1}
    assert all(look["error_rate"] in (0, None) for r in told["regions"] for look in r["looks"])
    assert any(look["ttft_mean_s"] for r in told["regions"] for look in r["looks"])
    assert told["missing"] == ["What clients saw: give the folder of a load test with --load."]
    assert "default-src" in Path(told["page"]).read_text()


@pytest.fixture(scope="module")
def second(shared: Here, lab: Lab) -> Here:
    """Give another working copy of the same fleet: its files, no record, no stacks."""
    return copied(shared, "second")


@pytest.mark.timeout(2400)  # four minutes on idle cores
def test_killed_at_every_step_it_ends_as_if_nobody_had_died(
    shared: Here, second: Here, lab: Lab
) -> None:
    """Thirty drivers of two working copies, one after the other; nothing twice, nothing lost."""
    killed = Killed(lab, shared, (shared, second), latest(shared) + 1)
    with lab.watched() as seen:
        killed.ends("started - clusters", *start_words("third"))
        for point in FIRST_STEP:
            killed.ends(point)
        killed.paused()
        for point in SECOND_STEP:
            killed.ends(point)
        paused = killed.goes_on()
        assert (paused.code, "paused" in paused.out) == (1, True), paused.err
        for point in LAST_STEP:
            killed.ends(point)
        ended = killed.goes_on()
    assert ended.code == 0, ended.err
    killed.must_be_whole(identity(shared, "third"), seen)
    assert came_well(record(shared, killed.number)) == [*PHASES] * 3  # steps: as undisturbed


def test_killed_on_the_way_back_it_still_arrives(shared: Here, second: Here, lab: Lab) -> None:
    """In updates whose engine is interrupted, terminated or killed: alone, or with the driver."""
    killed = Killed(lab, shared, (second, shared), latest(shared))
    with lab.watched() as seen:
        killed.ends("asked roll-back torn", "rollback", FILE, "--yes")
        killed.interrupted()
        for point in WAY_BACK:
            killed.ends(point)
        ended = killed.goes_on()
    assert ended.code == 0, ended.err
    killed.must_be_whole(identity(shared, "batch"), seen)


def test_another_working_copy_finds_the_rollout_and_what_was_changed(
    shared: Here, second: Here, lab: Lab
) -> None:
    """Its driver was terminated in an update; `pulumi up` by hand changes nothing more."""
    number = latest(shared) + 1
    driver = shared.start(*start_words("third", "--region", "west"))
    wait_for_phase(record(shared, number), "apply", 0)
    is_terminated(shared, driver)
    seen = second.run(*joined(shared, "rollout", "status", FILE, "-o", "json"))
    assert seen.code == 0, seen.err
    told = json.loads(seen.out)
    assert (told["rollout"], told["status"], told["phase"]) == (number, "running", "apply")
    assert (told["step"], told["drivers"]) == (["w01-0"], [])
    lab.label("w01-0", "by-hand")
    held = second.run(*joined(shared, "rollout", "resume", FILE, "-o", "json"))
    assert held.code == 1, held.err
    state = json.loads(held.out)
    assert state["status"] == "held"
    assert "w01-0: release by-hand, not third-" in state["why"]
    others = {name: uid for name, uid in lab.leaders().items() if name != "w01-0"}
    code, said = lab.pulumi(shared, "up", "--yes", "--skip-preview")
    assert code == 0 or "conflict" in said, said  # it takes nothing from others by itself
    assert {name: lab.leaders()[name] for name in others} == others


def test_it_ends_in_the_same_state_though_an_api_server_was_away(
    shared: Here, second: Here, lab: Lab
) -> None:
    """The first copy is refused by the lease meanwhile, and knows who drives."""
    events = second.folder / "events.jsonl"
    words = ("rollout", "resume", FILE, "--overwrite", "--events", str(events))
    with lab.watched() as seen:
        driver = second.start(*joined(shared, *words))
        wait_for_event(events, "ready", "w01-0")
        busy = shared.run("rollout", "resume", FILE)
        holder = f"/{driver.pid} rollout {latest(shared)}"
        assert (busy.code, holder in busy.err) == (9, True), busy.err
        start = shared.run(*start_words("batch"))
        assert (start.code, "Finish it first" in start.err) == (3, True), start.err
        wait_for_event(events, "ready", "w01-1")
        kill_engine(shared, lab, "w01-1", identity(shared, "third"))
        restart_frontend(shared, lab, "west")
        seen.faults.clear()  # it was the region's only one
        wait_for_event(events, "gates", "w01-1")
        with frozen(shared, "west"):
            time.sleep(AWAY_S)  # so long it is away; nothing is waited for
            assert driver.poll() is None
        ended = second.end(driver)
    assert ended.code == 0, ended.err
    assert "The rollout waits for it" in ended.err
    releases = lab.releases()
    assert {releases["w01-0"], releases["w01-1"]} == {identity(shared, "third")}
    kept = {name: len(uids) for name, uids in seen.pods.items() if name[0] == "e"}
    assert kept == {"e01-0": 1, "e01-1": 1}
    assert len(seen.pods["w01-0"]) <= 2
    # The old pod, the one whose engine was killed, and the one that its group is made anew with.
    assert len(seen.pods["w01-1"]) == 3
    assert seen.faults == []


def test_an_older_checkout_is_refused_until_it_is_synced(shared: Here, lab: Lab) -> None:
    """Its assignment is of before the other one went on."""
    before = lab.leaders()
    code, said = lab.pulumi(shared, "up", "--yes", "--skip-preview")
    assert code != 0
    assert "is older than the deployed" in said, said
    assert "k3fleet rollout sync" in said
    synced = shared.run("rollout", "sync", FILE)
    assert synced.code == 0, synced.err
    code, said = lab.pulumi(shared, "preview", "--expect-no-changes")
    assert code == 0, said
    assert lab.leaders() == before
    past = json.loads(shared.run("history", FILE, "-o", "json").out)
    assert [one["number"] for one in past] == list(range(latest(shared), 0, -1))
    assert {one["status"] for one in past} == {"done", "rolled-back"}
    unknown = shared.run("rollback", FILE, "--to", "nobody-12345678", "--yes")
    assert (unknown.code, "has not had it" in unknown.err) == (3, True), unknown.err


def test_a_step_whose_node_is_lost_is_held_and_turned_back(shared: Here, lab: Lab) -> None:
    """Its new pod finds no place: only the canary is away, and it comes back with the node."""
    hasty = STRATEGY.replace("ready: 45s", "ready: 25s")
    (shared.folder / "strategy.yaml").write_text(hasty)
    cards, before = identity(shared, "cards"), lab.releases()
    with cordoned(lab, "w01-0"):
        ended = shared.run(*start_words("cards", "--region", "west"))
        assert ended.code == 1, ended.err
        assert "of 2 pods run, after the deadline `ready`" in ended.out, ended.out
        assert "webhook at 127.0.0.1: ConnectError; the rollout goes on" in ended.err
        told = json.loads(shared.run("rollout", "status", FILE, "-o", "json").out)
    assert (told["status"], told["phase"], told["step"]) == ("held", "ready", ["w01-0"])
    rows = {row["replica"]: row for row in told["replicas"]}
    assert rows["w01-0"]["assigned"] == cards
    assert rows["w01-0"]["state"] != "serves"
    assert rows["w01-1"]["state"] == rows["e01-0"]["state"] == "serves"
    assert "k3fleet rollback" in told["ways_on"]
    back = shared.run("rollback", FILE, "--yes")
    assert back.code == 0, back.err
    assert lab.releases() == before
    assert not_as_recorded(shared, shared.work_dir) == []


def test_releases_that_are_kept_apart_share_the_sessions_and_no_replica(
    shared: Here, lab: Lab
) -> None:
    """Each has frontends of its own, a session changes over once at most, and none fails."""
    (shared.folder / "strategy.yaml").write_text(STRATEGY)
    [east] = [cluster for cluster in lab.clusters if cluster.region == "east"]
    [before] = {pod.set for pod in east.engines()}
    number = latest(shared) + 1
    with Sessions(talk_by_replica(lab, east)).running({"east": SESSIONS}) as sessions:
        driver = shared.start(*start_words("apart", "--region", "east"))
        wait_for_phase(record(shared, number), "ready", 0)
        assert shared.run("rollout", "pause", FILE).code == 0
        paused = shared.end(driver)
        assert paused.code == 1, paused.err
        known = known_sets(lab, east)
        assert len(known) == 2
        assert known == {name: {name} for name in known}
        wait_until(
            lambda: len({c.region for c in sessions.latest("east").values()}) == 2,
            "sessions are not on two replicas",
            PATIENCE_S,
        )
        # Sessions know a replica of the new set by now: for the gates of the next, others come.
        with lab.watched() as seen:
            ended = shared.run("rollout", "resume", FILE)
        assert (ended.code, seen.faults) == (0, []), ended.err
        assert before not in {pod.set for pod in east.engines()}
        gone = sessions.calls[-1].began_s
        wait_until(
            lambda: min(c.began_s for c in sessions.latest("east").values()) > gone,
            "not every session has gone on",
            PATIENCE_S,
        )
    assert sessions.faults == []
    told = sides(sessions.calls, drained_at(record(shared, number)))
    assert all(side == sorted(side) for side in told.values()), told
    assert {side[-1] for side in told.values()} == {True}
