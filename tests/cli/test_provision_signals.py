"""An update that is cut off: whoever is told to stop, nothing is left behind, or it is named."""

from __future__ import annotations

import os
import signal
import socket

import psutil
import pytest
from patience import wait_until
from provision_place import Place

STACK = "serving-us-east"


def hang(place: Place, how: object = True) -> None:
    place.brought_up()
    place.pulumi.answer({f"{STACK} up": {"hangs": how}})


def locks(place: Place) -> list[str]:
    folder = place.folder / ".k3fleet/demo/stacks/state/.pulumi/locks"
    return [file.name for file in folder.rglob("*.json")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_engine_and_is_waited_for(
    place: Place, number: signal.Signals
) -> None:
    """A job that is cancelled gets SIGTERM, a closed terminal SIGHUP."""
    hang(place)
    process = place.start("up", "--yes")
    place.hanging(STACK)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode in (130, -number), told
    assert (place.pulumi.folder / f"interrupted-{STACK}").exists()
    assert locks(place) == []
    wait_until(lambda: not psutil.pid_exists(place.plugin(STACK)), "the plugin lives on")
    place.pulumi.answer({})
    assert place.run("up", "--yes") == 0, place.err  # and it looks at what is there first
    assert f"{STACK} refresh" in place.pulumi.asked("refresh")


def test_a_second_signal_means_now(place: Place) -> None:
    """With what to do then: the lock and half an object may be left."""
    hang(place, "deaf")
    process = place.start("up", "--yes")
    engine = place.hanging(STACK)
    process.send_signal(signal.SIGINT)
    wait_until(
        (place.pulumi.folder / f"interrupted-{STACK}").exists, "the engine was not interrupted"
    )
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "k3fleet unlock" in told
    assert "k3fleet refresh" in told
    wait_until(lambda: not psutil.pid_exists(engine), "the engine lives on")
    assert locks(place) == ["1.json"]


def test_after_a_killed_command_the_engine_that_lives_on_is_named(place: Place) -> None:
    """Two engines on one stack lose objects: exit code 9 until it has ended."""
    hang(place, "deaf")
    process = place.start("up", "--yes")
    engine = place.hanging(STACK)
    process.kill()
    process.communicate(timeout=60)
    try:
        assert place.run("up", "--yes") == 9
        assert f"process {engine}@{socket.gethostname()} of me, for" in place.err
        assert place.run("unlock", "--yes") == 9
        assert "alive" in place.err
    finally:
        os.killpg(engine, signal.SIGKILL)
        os.kill(place.plugin(STACK), signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(engine), "the engine lives on")
    place.pulumi.answer({})
    assert place.run("up", "--yes") == 0, place.err
    assert "removed the lock of a dead update" in place.err
    assert f"{STACK} refresh" in place.pulumi.asked("refresh")


def test_of_two_commands_at_once_one_is_refused(place: Place) -> None:
    """Also while they only look: they would read each other's answers."""
    hang(place)
    process = place.start("up", "--yes")
    place.hanging(STACK)
    try:
        assert place.run("preview") == 9
        assert f"`k3fleet up`: process {process.pid}@{socket.gethostname()}" in place.err
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
