"""A record that several working copies share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rollout_copies import ME, Fleet
from rollout_large import large_record
from rollout_objects import FakeObjects
from rollout_world import KilledError, started

from fleet.errors import ApplyError, BusyError, ConfigError
from fleet.rollout.record import PHASES, Asked, Began, Ended
from fleet.rollout.state import Do, Over, read_state
from infra.rollout.driver import Result, drive
from infra.rollout.journal import Journal
from infra.rollout.ledger import KEPT, Ledger, Packer, Stored
from infra.rollout.rollouts import Rollouts, require_over


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


class Site:
    """Does what it is told."""

    def __init__(self, act: Callable[[Do], Result] = lambda _action: Result("ok")) -> None:
        self.done: list[tuple[str, str]] = []
        self._act = act

    def do(self, action: Do, stop: Callable[[], bool]) -> Result:
        self.done.append((action.phase, action.step.names[0]))
        return self._act(action)


@dataclass
class Copy:
    """A working copy, as far as the start of a rollout looks at it."""

    fleet: Fleet
    home: Path

    def clusters(self) -> dict[str, FakeObjects]:
        return self.fleet.regions

    def note(self, text: str) -> None:
        self.fleet.said.append(text)


def begun(fleet: Fleet, who: str = "anna") -> Journal:
    journal = fleet.copy(who)
    with journal.held(ME):
        journal.append(started(reruns=0), fleet.regions)
    return journal


def asked(command: str) -> Asked:
    return Asked.model_validate({"at_s": 1.0, "by": "me", "command": command})


def go(journal: Journal, site: Site) -> object:
    with journal.held(ME):
        return drive(journal, site, clock=lambda: 1.0)


@pytest.mark.parametrize("kill_at", range(0, len(PHASES) * 4, 3))
def test_another_working_copy_goes_on_where_a_killed_one_was(fleet: Fleet, kill_at: int) -> None:
    """It has no record of its own, and ends in the same state."""

    def act(_action: Do) -> Result:
        if len(first.done) == kill_at + 1:
            raise KilledError
        return Result("ok")

    first, second = Site(act), Site()
    with pytest.raises(KilledError):
        go(begun(fleet), first)
    assert go(fleet.copy("ben", "anna"), second) == Over(status="done")
    assert second.done[0] == first.done[-1]  # the open phase again, nothing before it
    assert fleet.stored("a") == fleet.stored("b") == tuple(fleet.copy("ben").read())


def test_the_intent_is_in_the_cluster_before_anything_is_touched(fleet: Fleet) -> None:
    """Else the other copy would not know what may have happened."""

    def act(action: Do) -> Result:
        for region in action.step.regions:
            assert fleet.stored(region)[-1] == Began(at_s=1.0, phase=action.phase)
        return Result("ok")

    assert go(begun(fleet), Site(act)) == Over(status="done")


def test_two_working_copies_cannot_drive_at_once(fleet: Fleet) -> None:
    """Their files do not know of each other; the lease does."""
    with begun(fleet).held(ME), pytest.raises(BusyError, match="driven by anna"):
        go(fleet.copy("ben"), Site())


def test_of_two_starts_at_once_one_is_refused(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that no rollout runs; the other one was a moment faster, and let go again."""
    monkeypatch.setattr("infra.rollout.rollouts.ClusterObjects", lambda objects: objects)
    faster, slower = (Rollouts(venue=Copy(fleet, fleet.folder / who)) for who in ("ben", "anna"))  # type: ignore[arg-type]

    others = iter([faster])

    def look(journal: Journal | None) -> None:
        require_over(journal)
        for other in others:
            other.begin(started(), ME, take_over=False)

    monkeypatch.setattr("infra.rollout.rollouts.require_over", look)
    with pytest.raises(BusyError, match="somebody else has just started this rollout"):
        slower.begin(started(), ME, take_over=False)
    assert fleet.stored("a") == fleet.stored("b") == (started(),)
    with pytest.raises(ConfigError, match="Finish it first"):
        slower.begin(started(), ME, take_over=False)


def test_who_is_taken_over_stops_before_the_next_thing(fleet: Fleet) -> None:
    """And writes nothing into the record that the other one writes now."""
    ben = fleet.copy("ben")

    def act(_action: Do) -> Result:
        if len(site.done) == 5:
            with ben.held(ME, take_over=True):
                ben.append(asked("pause"))
        return Result("ok")

    site = Site(act)
    with pytest.raises(BusyError):
        go(begun(fleet), site)
    assert len(site.done) == 5
    assert isinstance(fleet.stored("a")[-1], Asked)
    assert isinstance(fleet.copy("anna").read()[-1], Began)


def test_a_copy_that_was_left_behind_keeps_what_it_had_and_takes_the_other(fleet: Fleet) -> None:
    """Its last entry never reached the clusters, and somebody went on without it."""
    anna = begun(fleet)
    alone = Journal(anna.path)
    alone.append(Began(at_s=5.0, phase="preflight"))
    with fleet.copy("ben").held(ME):
        fleet.copy("ben")
    ben = fleet.copy("ben")
    with ben.held(ME):
        ben.append(Began(at_s=6.0, phase="preflight"))
        ben.append(Ended(at_s=7.0, phase="preflight", outcome="ok"))
    with anna.held(ME):
        assert anna.read() == ben.read()
    assert Journal(anna.path.with_suffix(".left")).read()[-1] == Began(at_s=5.0, phase="preflight")


def test_an_entry_that_only_the_file_has_is_brought_to_the_clusters(fleet: Fleet) -> None:
    """Nobody went on meanwhile, so nothing is lost."""
    anna = begun(fleet)
    Journal(anna.path).append(Began(at_s=5.0, phase="preflight"))
    with anna.held(ME):
        assert fleet.stored("a")[-1] == Began(at_s=5.0, phase="preflight")


def test_a_region_that_the_step_does_not_touch_may_be_away(fleet: Fleet) -> None:
    """It gets the record when it is back, and until then only its own steps wait."""
    done_without: list[int] = []

    def back() -> None:
        done_without.append(len(site.done))
        fleet.regions["b"].down = False

    def act(_action: Do) -> Result:
        if len(site.done) == 1:
            fleet.regions["b"].down = True
            fleet.time.later.append((10.0, back))
        return Result("ok")

    site = Site(act)
    assert go(begun(fleet), site) == Over(status="done")
    assert done_without == [2 * len(PHASES)]  # the first two steps touch only a
    assert fleet.stored("b") == fleet.stored("a")


def test_an_api_server_that_is_away_holds_the_rollout_and_lets_it_go_on(fleet: Fleet) -> None:
    """For 30 s, in the region of the step: the driver says why, waits, and goes on."""

    def act(action: Do) -> Result:
        if len(site.done) == 3:
            fleet.regions["a"].down = True
            fleet.time.later.append(
                (fleet.time.seconds + 30.0, lambda: setattr(fleet.regions["a"], "down", False))
            )
        return Result("ok")

    site = Site(act)
    assert go(begun(fleet), site) == Over(status="done")
    assert [phase for phase, _ in site.done[: len(PHASES)]] == list(PHASES)
    assert 30.0 <= fleet.time.seconds < 40.0
    assert any("The rollout waits" in text for text in fleet.said)


def test_an_api_server_that_stays_away_ends_the_driver_with_nothing_touched(fleet: Fleet) -> None:
    """Somebody can go on later; the intent that could not be written was not acted on."""

    def act(_action: Do) -> Result:
        fleet.regions["a"].down = fleet.regions["b"].down = True
        return Result("ok")

    site = Site(act)
    with pytest.raises(ApplyError, match="does not answer"):
        go(begun(fleet), site)
    assert len(site.done) == 1
    for region in fleet.regions.values():
        region.down = False
    assert go(fleet.copy("anna", "anna"), Site()) == Over(status="done")


def test_another_copy_asks_the_driver(fleet: Fleet) -> None:
    """`pause` from a laptop, while a pipeline drives."""

    def act(action: Do) -> Result:
        fleet.time.pause(2)
        if action.phase == "drain" and len(site.done) == 2:
            assert fleet.copy("ben").ask(asked("abort"), ME)
        return Result("ok")

    site = Site(act)
    assert go(begun(fleet), site) == Over(status="aborted")
    assert fleet.copy("cleo").requests() == []


def test_who_takes_over_does_not_ask_a_driver_that_may_be_dead(fleet: Fleet) -> None:
    """His machine is gone: a roll-back that waits for him waits until the lease has run out."""
    with begun(fleet).held(ME):
        journal = fleet.copy("ben")
        assert not journal.ask(asked("abort"), ME, take_over=True)
        assert journal.state().status == "aborted"


def test_asked_without_a_driver_it_is_written_down(fleet: Fleet) -> None:
    """From any copy, for every copy."""
    begun(fleet)
    assert not fleet.copy("ben").ask(asked("pause"), ME)
    assert read_state(fleet.stored("b")).status == "paused"


def test_a_record_of_a_large_fleet_fits_into_an_object() -> None:
    """1,800 replicas, one at a time: 4 MB of JSON, and an object may have 1 MiB."""
    entries = tuple(large_record())
    objects = FakeObjects()
    ledger = Ledger(objects)
    stored = ledger.write(1, Stored(entries=()), Packer().pack(entries))
    assert stored.item is not None
    assert len(stored.item["binaryData"]["record.jsonl.gz"]) < 900_000
    assert ledger.read(1).entries == entries


def test_old_records_leave_the_cluster() -> None:
    """The files of those who drove them stay."""
    ledger = Ledger(FakeObjects())
    for number in range(1, KEPT + 4):
        ledger.write(number, Stored(entries=()), Packer().pack([started()]))
    ledger.forget_old()
    assert ledger.numbers() == list(range(4, KEPT + 4))


def test_what_a_working_copy_has_is_not_unpacked_again() -> None:
    """`status` must not take half a minute because of what happened last month."""
    objects = FakeObjects()
    ledger = Ledger(objects)
    longer = [started(), Began(at_s=1.0, phase="preflight")]
    ledger.write(1, Stored(entries=()), Packer().pack([started()]))
    ledger.write(2, Stored(entries=()), Packer().pack(longer))
    assert set(ledger.newer({})) == {1, 2}
    assert ledger.newer({1: 1, 2: 1})[2].entries == tuple(longer)
    damaged = dict(objects.items[("ConfigMap", "k3fleet-rollout-0001")])
    objects.write("ConfigMap", {**damaged, "binaryData": {"record.jsonl.gz": "AAAA"}})
    assert ledger.newer({1: 1, 2: 2}) == {}


def test_a_damaged_record_is_named() -> None:
    """Nothing may be guessed about what was done."""
    objects = FakeObjects()
    stored = Ledger(objects).write(1, Stored(entries=()), Packer().pack([started()]))
    assert stored.item is not None
    objects.write("ConfigMap", {**stored.item, "binaryData": {"record.jsonl.gz": "AAAA"}})
    with pytest.raises(ApplyError, match="east: ConfigMap k3fleet-rollout-0001 is no record"):
        Ledger(objects).read(1)


def test_what_only_looks_like_ours_is_left_alone() -> None:
    """A driver that ends at a stranger's ConfigMap, or request, could not even turn back."""
    objects = FakeObjects()
    ledger = Ledger(objects)
    ledger.write(1, Stored(entries=()), Packer().pack([started()]))
    for name, number in (("theirs", "x"), ("theirs-too", "²"), ("copy", "1"), ("long", "9" * 5000)):
        labels = {"k3fleet.io/rollout": number}
        objects.write("ConfigMap", {"metadata": {"name": name, "labels": labels}})
    assert ledger.numbers() == [1]
    assert list(ledger.newer({})) == [1]
    ledger.ask(1, asked("abort"))
    objects.merge("ConfigMap", "k3fleet-rollout-requests", {"data": {"0001-x": "{}", "": "?"}})
    assert [one.command for one in ledger.requests(1).values()] == ["abort"]
