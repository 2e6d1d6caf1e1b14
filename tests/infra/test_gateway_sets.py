"""Two sets of releases behind one gateway, in its real Envoy: no restart, no session on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from gateway_rig import MODEL, Rig, running, show

from fleet.load import Fleet
from fleet.release import Release, release_id
from fleet.release_set import release_set
from infra.gateway import cluster_of
from infra.traffic import settings

SESSIONS = [f"session-{number}" for number in range(100)]
REPLICAS = ("use1-r01-0", "use1-r01-1")


@dataclass
class TwoSets:
    """A region of two replicas whose first frontend is of the old set, the second of the new."""

    rig: Rig
    fleet: Fleet
    new: Release

    def runs(self, count: int) -> None:
        """Say that so many replicas are to run the new release."""
        self.rig.render_sets(
            self.fleet, dict.fromkeys(REPLICAS[:count], release_id(self.new)), self.new
        )

    def tell(self, new: int) -> None:
        """Write the new set's share."""
        old, other = (cluster_of(release_set(r)) for r in (self.fleet.release, self.new))
        show(self.rig.folder / "traffic", settings({old: 1000 - new, other: new}, 0))

    def moved(self) -> set[str]:
        """Name the sessions that the new set's frontend answers; every one is answered."""
        moved = self._moved()
        assert moved is not None
        return moved

    def until(self, condition: Callable[[set[str]], bool]) -> set[str]:
        self.rig.wait(lambda: condition(self.moved()))
        return self.moved()

    def settled(self, condition: Callable[[set[str]], bool]) -> set[str]:
        """Wait where some are not answered before the gateway's health check has found out."""
        self.rig.wait(lambda: (moved := self._moved()) is not None and condition(moved))
        return self.moved()

    def _moved(self) -> set[str] | None:
        owners = {name: self.rig.owner(name) for name in SESSIONS}
        if None in owners.values():
            return None
        return {n for n, at in owners.items() if at == self.rig.frontends[1].address}


@pytest.fixture(scope="module")
def two(
    make_fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoSets]:
    fleet = make_fleet({"use1-r01": 4})
    new = fleet.release.model_copy(update={"name": "new", "block_size": 2048})
    folder: Path = tmp_path_factory.mktemp("sets")
    names = (release_set(fleet.release), release_set(new))
    with running(fleet, folder, lambda text: text, *names) as rig:
        rig.key = ""
        yield TwoSets(rig, fleet, new)


def test_sessions_go_over_as_the_share_grows_and_none_comes_back(two: TwoSets) -> None:
    """A set that comes gets nothing by itself; one that goes is gone without a restart."""
    assert two.moved() == set()
    two.tell(0)
    two.runs(1)
    two.tell(300)
    some = two.until(bool)
    assert 0.15 < len(some) / len(SESSIONS) < 0.45
    two.tell(600)
    more = two.until(lambda moved: moved != some)
    assert some < more
    two.tell(1000)
    two.until(lambda moved: moved == set(SESSIONS))
    two.runs(2)
    assert two.until(lambda moved: moved == set(SESSIONS))
    two.tell(300)  # of what is no longer known; the set that is left has all the same
    assert two.moved() == set(SESSIONS)


def test_a_set_without_a_replica_that_serves_leaves_its_sessions_to_the_other(two: TwoSets) -> None:
    """A canary that dies takes nobody with it, though its share still says otherwise."""
    two.runs(1)
    two.tell(300)
    # The old set comes back, and the gateway has to have found its frontend first.
    some = two.settled(lambda moved: 0 < len(moved) < len(SESSIONS))
    canary = two.rig.frontends[1]
    canary.models = []
    try:
        two.settled(lambda moved: not moved)
    finally:
        canary.models = [MODEL]
    assert two.settled(bool) == some
