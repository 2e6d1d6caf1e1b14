"""How a rollout begins, and what must not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from fleet.release import Release, release_id
from fleet.rollout.begin import Running, plan_from, recorded, require_possible
from fleet.rollout.record import Started
from fleet.rollout.state import read_state
from fleet.rollout.strategy import Strategy, WaveSpec

DEMO = Path(__file__).parents[3] / "fleets/demo.yaml"
STRATEGY = Strategy(waves=(WaveSpec(scope="canary", soak_s=60.0), WaveSpec(scope="rest")))


@pytest.fixture(scope="module")
def demo() -> Fleet:
    """Give the demo fleet."""
    return load_fleet(DEMO)


def changed(fleet: Fleet, **fields: object) -> Release:
    return fleet.release.model_copy(update={"name": "new", "max_num_seqs": 9, **fields})


def running(fleet: Fleet, *others: Release) -> Running:
    """Say that all replicas run the fleet's release but one for each other release."""
    assigned = {
        f"{rack}-{slot}": fleet.release_id for rack in ("use1-r01", "euw1-r01") for slot in range(9)
    }
    for slot, release in enumerate(others):
        assigned[f"use1-r01-{slot}"] = release_id(release)
    releases = {release_id(release): release for release in (fleet.release, *others)}
    return Running(assigned=assigned, releases=releases)


def test_the_record_has_all_that_driving_needs(demo: Fleet) -> None:
    """Another process, without the strategy file, gets the same steps, floors and gates."""
    new = changed(demo)
    plan = plan_from(demo, running(demo), new, STRATEGY, ("us-east",))
    sources = {demo.release_id: demo.spec.release, release_id(new): "/releases/new.yaml"}
    now = replace(running(demo), sources=sources, serials={"us-east": 7})
    started = recorded(demo, plan, STRATEGY, running=now, by="me", at_s=1.0)
    assert Started.model_validate_json(started.model_dump_json()) == started
    assert started.gates == {wave.scope: wave.gates for wave in STRATEGY.waves}
    assert (started.floor, started.deadlines) == (STRATEGY.floor, STRATEGY.deadlines)
    assert (started.releases, started.serials) == (sources, {"us-east": 7})
    assert [step.soak_s for step in started.steps] == [60.0, *[0.0] * 7, 300.0]
    places = [place for step in started.steps for place in step.places]
    assert {(place.rack, place.region) for place in places} == {("use1-r01", "us-east")}
    assert read_state([started]).assigned == dict.fromkeys(
        (place.replica for place in places), demo.release_id
    )


def test_the_way_starts_at_what_runs(demo: Fleet) -> None:
    """After a rollout the fleet file still names the release before it."""
    mid, new = changed(demo), changed(demo, name="newer")
    now = running(demo)
    everywhere = Running(
        assigned=dict.fromkeys(now.assigned, release_id(mid)), releases={release_id(mid): mid}
    )
    plan = plan_from(demo, everywhere, new, STRATEGY, ())
    assert (plan.old, plan.new) == (release_id(mid), release_id(new))
    assert plan_from(demo, everywhere, mid, STRATEGY, ()).steps == ()


def test_several_releases_are_brought_to_one_first(demo: Fleet) -> None:
    """A way back would not know where to."""
    with pytest.raises(ConfigError, match="several releases"):
        plan_from(demo, running(demo, changed(demo)), changed(demo, name="newer"), STRATEGY, ())


def test_the_rest_of_an_aborted_rollout_can_be_brought_out(demo: Fleet) -> None:
    """Those that have the release already are no part of it."""
    new = changed(demo)
    plan = plan_from(demo, running(demo, new), new, STRATEGY, ())
    assert plan.unchanged == 1
    assert "use1-r01-0" not in {name for step in plan.steps for name in step.replicas}


def test_frontends_that_follow_something_else_are_named(demo: Fleet) -> None:
    """A way back would bring them to what they never were."""
    other, new = (
        changed(demo, edge={"retries": 5}),
        changed(demo, edge={"retries": 6}, name="newer"),
    )
    now = running(demo, other)
    now = replace(
        now,
        assigned=dict.fromkeys(now.assigned, demo.release_id),
        following={"us-east": release_id(other), "eu-west": demo.release_id},
    )
    with pytest.raises(ConfigError, match=r"us-east: its frontends and gateway follow .*retries"):
        plan_from(demo, now, new, STRATEGY, ())
    back = plan_from(demo, now, demo.release, STRATEGY, ())
    assert [(step.shared, back.old) for step in back.steps] == [("us-east", release_id(other))]


def test_what_replicas_have_left_behind_is_followed_no_more(demo: Fleet) -> None:
    """Their set has frontends of its own, and the next rollout changes those once, at its end."""
    mid = changed(demo, block_size=2048)
    dynamo = mid.dynamo.model_copy(
        update={"image": mid.dynamo.image.replace("sha256:", "sha256:0")[:-1]}
    )
    new = mid.model_copy(update={"name": "newer", "dynamo": dynamo})
    now = Running(
        assigned=dict.fromkeys(running(demo).assigned, release_id(mid)),
        releases={release_id(mid): mid, demo.release_id: demo.release},
        following=dict.fromkeys(["us-east", "eu-west"], demo.release_id),
    )
    plan = plan_from(demo, now, new, STRATEGY, ())
    assert [step.shared for step in plan.steps if step.shared] == ["us-east", "eu-west"]


def test_what_a_region_shares_is_part_of_the_record(demo: Fleet) -> None:
    """Behind the replicas of its region, and with what has to be known to turn it back."""
    new = changed(demo, edge={"retries": 5})
    plan = plan_from(demo, running(demo), new, STRATEGY, ())
    sources = {demo.release_id: demo.spec.release, release_id(new): "/releases/new.yaml"}
    now = replace(running(demo), sources=sources)
    started = recorded(demo, plan, STRATEGY, running=now, by="me", at_s=1.0)
    shared = [index for index, step in enumerate(started.steps) if step.shared]
    assert [started.steps[index].shared for index in shared] == ["us-east", "eu-west"]
    assert {p.region for step in started.steps[: shared[0]] for p in step.places} == {"us-east"}
    assert started.steps[-1].soak_s == 300.0
    assert read_state([started]).shared == dict.fromkeys(["us-east", "eu-west"], demo.release_id)


def test_the_operators_backend_is_refused(demo: Fleet) -> None:
    """Its Services are not ours, so no label takes a replica out of routing."""
    fleet = replace(demo, spec=demo.spec.model_copy(update={"backend": "dgd"}))
    new = changed(demo)
    plan = plan_from(demo, running(demo), new, STRATEGY, ())
    with pytest.raises(ConfigError, match="backend dgd"):
        require_possible(fleet, plan, demo.release, new)
    require_possible(demo, plan, demo.release, new)
