"""May a region be touched from here, when its API server does not even answer?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from rollout_objects import FakeTime

from fleet.errors import ClusterError
from infra.rollout.cluster import AwayError
from infra.rollout.rights import Rights
from infra.rollout.waiting import Waiter


@dataclass
class FakeRegion:
    """An API server that may be away."""

    name: str
    away: bool = False

    def owner(self) -> tuple[str, str]:
        if self.away:
            raise AwayError(f"{self.name}: its API server does not answer.")
        return "fleet", self.name


@dataclass
class World:
    """Two regions, and what is said and asked of them."""

    east: FakeRegion = field(default_factory=lambda: FakeRegion("east"))
    west: FakeRegion = field(default_factory=lambda: FakeRegion("west"))
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    time: FakeTime = field(default_factory=FakeTime)

    def rights(self, ask: Callable[[str], None] | None = None) -> Rights:
        clusters = {"east": self.east, "west": self.west}
        return Rights(clusters=clusters, ask=ask or self.asked.append, say=self.said.append)  # type: ignore[arg-type]

    @property
    def waiter(self) -> Waiter:
        return Waiter(clock=lambda: self.time.seconds, pause=self.time.pause, stop=lambda: False)


def test_one_that_answers_is_enough_to_begin() -> None:
    """The rollout's record is in every region; a dead one holds back no rollback in the others."""
    world = World(east=FakeRegion("east", away=True))
    world.rights().await_any(world.waiter)
    assert (world.time.seconds, world.said) == (0.0, [])


def test_when_none_answers_it_is_waited_and_said_once() -> None:
    """Of a fleet of one region, while its control plane is upgraded."""
    world = World(east=FakeRegion("east", away=True), west=FakeRegion("west", away=True))
    world.time.later.append((30.0, lambda: setattr(world.west, "away", False)))
    world.rights().await_any(world.waiter)
    assert 30.0 <= world.time.seconds < 32.0
    assert world.said == ["east: its API server does not answer. The rollout waits for it."]


def test_it_is_not_waited_for_ever() -> None:
    """What comes next says what is wrong and what to do."""
    world = World(east=FakeRegion("east", away=True), west=FakeRegion("west", away=True))
    world.rights().await_any(world.waiter)
    assert world.time.seconds == 300.0


def test_a_region_that_is_away_is_asked_before_its_turn() -> None:
    """Neither touched unasked, nor a reason not to drive the others."""
    world = World(west=FakeRegion("west", away=True))
    rights = world.rights()
    rights.look(["east", "west"])
    assert world.asked == ["east"]
    assert "west: its API server does not answer. It is asked again" in world.said[0]
    with pytest.raises(AwayError):
        rights.require("west")
    world.west.away = False
    rights.require("west")
    rights.require("west")
    rights.require("east")
    assert world.asked == ["east", "west"]


def test_a_wrong_cluster_is_an_error_at_once() -> None:
    """Before anything is done in any region."""

    def wrong(region: str) -> None:
        raise ClusterError(f"{region}: another cluster.")

    with pytest.raises(ClusterError, match="east: another cluster"):
        World().rights(wrong).look(["east", "west"])
