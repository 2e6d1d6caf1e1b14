"""Who may drive a region, when two operators on two machines want to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rollout_objects import FakeObjects, FakeTime, holder

from fleet.errors import ApplyError, BusyError
from infra.rollout.lease import LENGTH_S, Leases, RegionLease, read_lease
from infra.rollout.process import is_gone, own_process


def lease(objects: FakeObjects, name: str, time: FakeTime, **more: object) -> RegionLease:
    gone: tuple[str, ...] = more.get("gone", ())  # type: ignore[assignment]
    skew_s: float = more.get("skew_s", 0.0)  # type: ignore[assignment]
    return RegionLease(objects, holder(name, gone=gone), time.of(skew_s))


@pytest.fixture
def east() -> FakeObjects:
    return FakeObjects()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


def test_the_second_operator_sees_who_drives(east: FakeObjects, time: FakeTime) -> None:
    """With the age and the way to take over, since he has to decide."""
    lease(east, "anna@one/1 rollout 3", time).acquire()
    time.pause(20)
    with pytest.raises(BusyError) as caught:
        lease(east, "ben@two/2 rollout 3", time).acquire()
    assert "driven by anna@one/1 rollout 3" in str(caught.value)
    assert "since 2026-01-01T12:00:00, renewed 20 s ago" in str(caught.value)
    assert "--take-over" in str(caught.value)
    seen = read_lease(east, time.of().now())
    assert seen is not None
    assert (seen.holder, seen.age_s, seen.expired) == ("anna@one/1 rollout 3", 20.0, False)


def test_a_released_lease_is_free_at_once(east: FakeObjects, time: FakeTime) -> None:
    """Nobody waits for a driver that has finished."""
    first = lease(east, "anna", time)
    first.acquire()
    first.release()
    assert read_lease(east, time.of().now()) is None
    assert lease(east, "ben", time).acquire() == ""


def test_a_dead_process_of_this_machine_is_followed_at_once(
    east: FakeObjects, time: FakeTime
) -> None:
    """After kill -9, `resume` must not have to wait for a minute."""
    lease(east, "anna", time).acquire()
    why = lease(east, "ben", time, gone=("process of anna",)).acquire()
    assert why == "east: anna has ended without giving it back"
    assert time.seconds == 0


def test_taking_over_says_from_whom(east: FakeObjects, time: FakeTime) -> None:
    """And the one who was driving finds out before his next touch."""
    first = lease(east, "anna", time)
    first.acquire()
    why = lease(east, "ben", time).acquire(take_over=True)
    assert why.startswith("east: taken over from anna, since ")
    first.require()  # he renewed a moment ago and does not know
    first.renew()
    with pytest.raises(BusyError, match="taken over by ben"):
        first.require()
    first.release()
    seen = read_lease(east, time.of().now())
    assert seen is not None
    assert seen.holder == "ben"


def test_who_was_away_too_long_asks_before_he_touches(east: FakeObjects, time: FakeTime) -> None:
    """A machine that slept for an hour must not go on as if nothing was."""
    first = lease(east, "anna", time)
    first.acquire()
    time.pause(LENGTH_S * 10)
    lease(east, "ben", time).acquire(take_over=True)
    with pytest.raises(BusyError, match="taken over by ben"):
        first.require()


def test_a_silent_holder_is_followed_after_a_look(east: FakeObjects, time: FakeTime) -> None:
    """His machine is gone; nobody can see his process."""
    lease(east, "anna", time).acquire()
    time.pause(LENGTH_S + 1)
    why = lease(east, "ben", time).acquire()
    assert "renews it no more" in why
    assert time.seconds > LENGTH_S + 10


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_a_clock_that_is_wrong_takes_nothing_away(
    east: FakeObjects, time: FakeTime, skew_s: float
) -> None:
    """An hour ahead, every lease looks expired: but its holder still renews it."""
    first = lease(east, "anna", time)
    first.acquire()
    for second in range(0, 60, 5):
        time.later.append((float(second), first.renew))
    with pytest.raises(BusyError, match="driven by anna"):
        lease(east, "ben", time, skew_s=skew_s).acquire()


def test_a_clock_that_was_set_back_keeps_no_dead_driver_alive(
    east: FakeObjects, time: FakeTime
) -> None:
    """An hour back, his last renewal lies in the future: it is watched for its whole length."""
    lease(east, "anna", time).acquire()
    why = lease(east, "ben", time, skew_s=-3600.0).acquire()
    assert "anna, since 2026-01-01T12:00:00, renewed in the future (the clocks differ)" in why
    assert time.seconds >= LENGTH_S


def test_an_api_server_that_is_away_for_half_a_minute_costs_nothing(
    east: FakeObjects, time: FakeTime
) -> None:
    """Its holder says so when asked, and still has it when it is back."""
    first = lease(east, "anna", time)
    first.acquire()
    east.down = True
    time.pause(LENGTH_S / 2 + 1)
    with pytest.raises(ApplyError, match="does not answer"):
        first.require()
    east.down = False
    first.require()
    with pytest.raises(BusyError):
        lease(east, "ben", time).acquire()


def test_a_lost_answer_is_no_lost_lease(east: FakeObjects, time: FakeTime) -> None:
    """The renewal arrived, its answer did not: what is there is still ours."""
    first = lease(east, "anna", time)
    first.acquire()
    east.deaf = True
    with pytest.raises(ApplyError):
        first.renew()
    east.deaf = False
    first.renew()
    first.require()


def test_all_regions_are_held_or_none(time: FakeTime) -> None:
    """A driver that has half of the fleet would block the one who has the other half."""
    east, west = FakeObjects("east"), FakeObjects("west")
    lease(west, "ben", time).acquire()
    mine = Leases({o.region: lease(o, "anna", time) for o in (east, west)}, lambda _text: None)
    with pytest.raises(BusyError, match="west: driven by ben"), mine.held():
        pass
    assert read_lease(east, time.of().now()) is None


def test_a_region_out_of_reach_does_not_stop_the_others(time: FakeTime) -> None:
    """A dead region must not keep a bad release in the living ones."""
    east, west = FakeObjects("east"), FakeObjects("west", down=True)
    said: list[str] = []
    mine = Leases({o.region: lease(o, "anna", time) for o in (east, west)}, said.append)
    with mine.held():
        mine.require("east")
        with pytest.raises(ApplyError, match="west"):
            mine.require("west")
        west.down = False
        mine.require("west")
        seen = read_lease(west, time.of().now())
        assert seen is not None
        assert seen.holder == "anna"
    assert read_lease(west, time.of().now()) is None
    assert said == ["west: its API server does not answer."]


def test_a_process_that_has_ended_is_gone_and_others_are_not() -> None:
    """By its start too: ids are given anew. What another machine runs cannot be seen."""
    code = "from infra.rollout.process import own_process; print(own_process())"
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env=env)
    assert is_gone(ended.stdout.strip())
    me = own_process()
    assert not is_gone(me)
    assert is_gone(me.rpartition(" ")[0] + " 1")
    assert not is_gone("another-boot pid:[1] 1 1")
    assert not is_gone("")


def test_a_clock_that_is_set_kills_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a process by the time of day moves with the clock: a living driver is no corpse.

    psutil reads the time of the boot anew each time, and the kernel computes it from the clock.
    """
    me = own_process()
    boot_s = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot_s + 3600.0)
    assert own_process() == me
    assert not is_gone(me)


def test_a_zombie_is_gone() -> None:
    """Its parent has not looked yet; it drives nothing any more."""
    code = "from infra.rollout.process import own_process; print(own_process(), flush=True)"
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        name = child.stdout.read().decode().strip()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it ended, and is not yet reaped
        assert is_gone(name)
