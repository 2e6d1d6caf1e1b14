"""The live picture of a rollout."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rollout_world import NEW, OLD, REPLICAS, World, started

from cli.rollout_picture import picture, slots
from fleet.rollout.record import PHASES

PLACES = [("a" if name[0] == "a" else "b", name.partition("-")[0], name) for name in REPLICAS]


@pytest.fixture
def world() -> World:
    """Give a rollout whose canary is done and whose second step is under way."""
    made = World(record=[started()])
    for _ in range(len(PHASES) + PHASES.index("ready")):
        made.go()
    return made


def drawn(world: World, live: dict[str, tuple[str, str]], **console: object) -> list[str]:
    stream = io.StringIO()
    shown = picture(slots(PLACES, live, world.state), world.state, ["ready a1-1, a1-2"])
    Console(file=stream, width=100, **console).print(shown)  # type: ignore[arg-type]
    return stream.getvalue().splitlines()


def test_each_rack_is_a_row_and_each_slot_a_sign(world: World) -> None:
    """What serves, what is away, and what is not there at all."""
    live = dict.fromkeys(REPLICAS, (OLD, "serves"))
    live |= {"a1-0": (NEW, "serves"), "a1-1": (NEW, "not ready"), "a2-0": (OLD, "ends")}
    del live["b1-1"]
    lines = drawn(world, live)
    rows = {line.split()[1]: line.split()[2:] for line in lines if line.startswith(("a ", "b "))}
    assert rows["a1"] == ["■", "…", "■", "2", "of", "3"]
    assert rows["a2"] == ["·", "0", "of", "1"]
    assert rows["b1"] == ["■", "x", "0", "of", "2"]
    assert lines[-1] == "ready a1-1, a1-2"


def test_colours_tell_the_releases_and_the_step_apart(world: World) -> None:
    """Blue was, green will be; a release that is neither has no business there."""
    live = {"a1-0": (NEW, "serves"), "a1-1": (OLD, "serves"), "a2-0": ("third-1", "serves")}
    text = "\n".join(drawn(world, live, force_terminal=True, color_system="standard"))
    assert "\x1b[32m■" in text  # new
    assert "\x1b[1;4;34m■" in text  # old, in the step
    assert "\x1b[35m■" in text  # neither


def test_names_cannot_write_into_the_terminal(world: World) -> None:
    """A pod's label is what somebody wrote there."""
    places = [("a\x1b[2J", "a1", "a1-0")]
    found = slots(places, {"a1-0": ("x\x1b[2J", "serves")}, world.state)
    stream = io.StringIO()
    Console(file=stream, width=100).print(picture(found, world.state, ["why\x1b[2J"]))
    assert "\x1b" not in stream.getvalue()
