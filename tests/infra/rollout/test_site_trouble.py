"""What a phase does when somebody, or something, comes in between."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from rollout_site import FIRST, REGION, REPLICAS, FakeStack, Rig, change, roll

from fleet.errors import ApplyError, BusyError
from fleet.rollout.counters import Counts
from fleet.rollout.record import PHASES, Phase
from infra.rollout.driver import Result


def by_hand(rig: Rig, replica: str) -> None:
    """Change a replica's object as `kubectl edit` does."""
    template = rig.region.live[replica]["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    template["spec"]["containers"][0]["args"] = ["--by-hand"]


@pytest.mark.parametrize("replica", [FIRST, REPLICAS[1]])
def test_what_somebody_changed_by_hand_is_named_and_left(rig: Rig, replica: str) -> None:
    """In the step's own replica and in others: it may be why traffic is well."""
    rig.region.live = rig.region.stack.rendered()
    assert rig.do("preflight") == Result("ok")
    by_hand(rig, replica)
    result = rig.do("preflight")
    assert result.outcome == "inconclusive"
    assert f"{replica}: leaderTemplate: main: args is not the release's" in result.why
    assert "resume --overwrite" in result.why


def test_a_change_by_hand_just_before_the_update_is_seen(rig: Rig) -> None:
    """The drain took a while, and somebody wanted to help."""
    rig.region.live = rig.region.stack.rendered()
    rig.do("assign")
    by_hand(rig, FIRST)
    assert "Nothing was touched" in rig.do("apply").why
    assert rig.region.stack.done == []
    rig.overwrite = True
    result = rig.do("apply")
    assert result.outcome == "ok"
    assert f"put back: {REGION}" not in result.why
    assert f"put back: {FIRST}" in result.why
    assert rig.region.stack.done == ["preview False force", "up False force"]


def test_half_of_an_update_is_nobodys_change(rig: Rig) -> None:
    """A killed update leaves the old release live while the new one is written down."""
    rig.region.live = rig.region.stack.rendered()
    rig.do("assign")
    assert rig.do("apply") == Result("ok")
    rig.region.live = rig.region.stack.rendered()
    assert rig.do("apply", back=True) == Result("ok")


@pytest.mark.parametrize("phase", PHASES)
def test_who_lost_the_region_touches_nothing(rig: Rig, phase: Phase) -> None:
    """Another operator drives now; two updates at once would fight."""
    rig.lost = "us-east: taken over by somebody"
    before = list(rig.region.pods)
    with pytest.raises(BusyError, match="taken over"):
        rig.do(phase)
    assert (rig.region.pods, rig.region.stack.done, rig.region.stack.assigned) == (before, [], {})


def test_who_loses_the_region_during_a_look_does_not_update(rig: Rig) -> None:
    """The preview takes seconds; the update must not follow it."""
    stack = rig.region.stack
    look = stack.preview

    def preview(*, refresh: bool, force: bool) -> FakeStack:
        rig.lost = "us-east: taken over by somebody"
        return look(refresh=refresh, force=force)

    stack.preview = preview  # type: ignore[method-assign]
    with pytest.raises(BusyError, match="taken over"):
        rig.do("apply")
    assert stack.done == ["preview False"]


@pytest.mark.parametrize(
    "phase",
    ["preflight", "drain", "apply", "verify", "ready", "registered", "smoke", "restore", "gates"],
)
def test_an_api_server_that_is_away_is_waited_for(rig: Rig, phase: Phase) -> None:
    """For half a minute: that is no verdict, and nobody has to be called."""
    rig.region.live = rig.region.stack.rendered()
    rig.region.stack.assigned = {FIRST: rig.started.new}
    rig.region.live = rig.region.stack.rendered()
    roll(rig, rig.started.new)
    rig.region.away = True
    rig.at(30.0, lambda: setattr(rig.region, "away", False))
    rig.at(40.0, lambda: setattr(rig.region, "counted", Counts(requests=100)))
    assert rig.do(phase).outcome == "ok"
    assert 30.0 <= rig.now_s <= 41.0
    assert rig.said == [f"{REGION}: its API server does not answer. The rollout waits for it."]


def test_an_update_whose_api_server_went_away_is_done_again(rig: Rig) -> None:
    """Pulumi's own words are about one object; what is wrong is the server."""
    stack = rig.region.stack
    stack.fails = ["up failed: connection refused."]
    rig.region.live = stack.rendered()
    update = stack.up

    def up(*, refresh: bool, force: bool, only: Collection[str] = ()) -> None:
        rig.region.away = bool(stack.fails)
        rig.at(rig.now_s + 20.0, lambda: setattr(rig.region, "away", False))
        update(refresh=refresh, force=force, only=only)

    stack.up = up  # type: ignore[method-assign]
    assert rig.do("apply").outcome == "ok"
    assert stack.done.count("up False") == 2
    stack.fails = ["up failed: quota."]
    stack.up = update  # type: ignore[method-assign]
    with pytest.raises(ApplyError, match="quota"):
        rig.do("apply")


def test_an_api_server_that_stays_away_leaves_it_to_people(rig: Rig) -> None:
    """With what is missing; not for ever."""
    rig.region.away = True
    result = rig.do("ready")
    assert (result.outcome, rig.now_s) == ("inconclusive", 300.0)
    assert "does not answer" in result.why


def test_frontends_that_are_made_anew_are_waited_for(rig: Rig) -> None:
    """The new ones know nothing at first: that is not the replica's fault."""
    rig.region.mute = {FIRST}
    rig.at(20.0, rig.region.mute.clear)
    assert rig.do("smoke").outcome == "ok"
    assert rig.now_s == 20.0


@pytest.mark.parametrize("phase", ["ready", "registered"])
def test_an_engine_that_ends_and_comes_back_costs_only_time(rig: Rig, phase: Phase) -> None:
    """A process was killed; its pod starts it again."""
    roll(rig, rig.started.new)
    change(rig, ready=False)
    rig.at(15.0, lambda: change(rig, ready=True))
    assert rig.do(phase) == Result("ok")
    assert rig.now_s == 15.0


def test_a_node_that_is_lost_elsewhere_holds_before_anything_is_taken_away(rig: Rig) -> None:
    """And names who is missing; when it is back, it goes on."""
    change(rig, REPLICAS[2], ready=False)
    assert f"other replicas do not serve: {REPLICAS[2]}" in rig.do("preflight").why
    change(rig, REPLICAS[2], ready=True)
    assert rig.do("preflight") == Result("ok")
