"""Kill the driver of a rollout again and again, each time followed by another working copy's."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from cli_runs import Ended, Here
from patience import wait_until
from rollout_lab import FILE, PATIENCE_S, Lab, Watched, joined, record

from cli.wiring import surroundings
from fleet.load import load_fleet
from fleet.rollout.record import Began, Entry
from fleet.rollout.record import Ended as EndedPhase
from infra.rollout.checks import differs
from infra.rollout.journal import Journal
from infra.rollout.ledger import Ledger
from infra.rollout.objects import ClusterObjects
from infra.rollout.rollouts import Rollouts
from infra.rollout.working_copy import up_to_date
from lab.rollout import LabVenue

# In the order of the rollout; see `mortal_driver` for the words. A wait is only sure to be one
# when the same driver has begun what it waits for.
FIRST_STEP = (
    "began preflight one-cluster",
    "ended preflight unwritten",
    "began drain torn",
    "touch drain routed",
    "touch drain waiting",
    "began assign clusters",
    "touch assign draft",
    "touch assign assigned",
    "resume - syncing",
    "began apply written",
    "touch apply preview",
    "touch apply update",
    "touch apply patched",
    "ended apply one-cluster",
    "began registered clusters",
    "touch smoke questions",
    "began gates written",
    "touch gates waiting",
    "touch soak waiting",
    "ended soak written",
)
# Of two regions; a pause was asked for meanwhile, so it ends after them.
SECOND_STEP = (
    "touch apply one-region",
    "touch ready waiting",
    "ended registered torn",
)
LAST_STEP = (
    "asked resume clusters",
    "resume - one-lease",
    "resume - settling",
    "touch apply update-goes-on",
    "began restore written",
)
# The engine alone is ended in some, which holds the rollout.
WAY_BACK = (
    "touch apply engine-interrupted",
    "touch apply telling",
    "touch apply engine-terminated",
    "touch apply patched",
    "ended restore one-cluster",
    "touch ready waiting",
)
RESUME = ("rollout", "resume", FILE)


@dataclass
class Killed:
    """A rollout whose drivers die; `seen` is what the clusters had of its record after each."""

    lab: Lab
    first: Here  # the working copy that started the lab
    copies: Sequence[Here]
    number: int
    seen: list[tuple[Entry, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next: Iterator[Here] = cycle(self.copies)
        self._before = self.lab.generations()

    def ends(self, point: str, *words: str) -> None:
        """Let a driver of the next working copy come to its point.

        It dies there, or the engine does, and the driver holds the rollout.
        """
        copy = next(self._next)
        ended = copy.end(copy.start(*self._at_home(copy, words or RESUME), point=point))
        held = ended.code == 1 and "held: " in ended.out and "up failed" in ended.out
        wanted = held if "engine" in point else ended.code == -signal.SIGKILL
        assert wanted, f"{point}: {ended.code}\n{ended.out}{ended.err}"
        self.look()

    def goes_on(self) -> Ended:
        """Let a driver of the next working copy go as far as it goes."""
        copy = next(self._next)
        return copy.run(*self._at_home(copy, RESUME))

    def interrupted(self) -> None:
        """Let a driver hear Ctrl-C in a drain: it says how to go on."""
        copy, driver = self._draining()
        driver.send_signal(signal.SIGINT)
        ended = copy.end(driver)
        assert (ended.code, "rollout resume" in ended.err) == (130, True), ended.err

    def paused(self) -> None:
        """Ask for a pause in a drain: the asker dies behind it, the driver as it notes it."""
        copy, driver = self._draining("asked pause clusters")
        driver.send_signal(signal.SIGSTOP)  # it is still in its drain when it is asked
        [other] = [one for one in self.copies if one is not copy]
        words = self._at_home(other, ("rollout", "pause", FILE))
        asked = other.end(other.start(*words, point="touch - left"))
        assert asked.code == -signal.SIGKILL, asked.err
        driver.send_signal(signal.SIGCONT)
        ended = copy.end(driver)
        assert ended.code == -signal.SIGKILL, ended.err
        self.look()

    def _draining(self, point: str = "") -> tuple[Here, subprocess.Popen[str]]:
        """Start a driver of the next working copy, and wait until it drains a replica."""
        copy, before = next(self._next), len(self.look())
        driver = copy.start(*self._at_home(copy, RESUME), point=point)

        def drains() -> bool:
            begun = any(isinstance(e, Began) and e.phase == "drain" for e in self.look()[before:])
            assert begun or driver.poll() is None, driver.communicate()
            return begun

        wait_until(drains, "no drain has begun", PATIENCE_S, pause_s=0.1)
        return copy, driver

    def look(self) -> tuple[Entry, ...]:
        """Read the longest record in the clusters."""
        ledgers = [Ledger(ClusterObjects(cluster)) for cluster in self.lab.clusters]
        self.seen.append(max((one.read(self.number).entries for one in ledgers), key=len))
        return self.seen[-1]

    def must_be_whole(self, release: str, watched: Watched) -> None:
        """Nothing was done twice, nothing is lost, and both copies agree with the clusters."""
        assert set(self.lab.releases().values()) == {release}
        pods = {name: len(uids) for name, uids in watched.pods.items()}
        assert pods == dict.fromkeys(self._before, 2)  # the one before, and the one behind
        assert self.lab.generations() == {name: n + 1 for name, n in self._before.items()}
        for copy in self.copies:
            assert not_as_recorded(copy, self.first.work_dir) == []
        last = tuple(Journal(record(self.first, self.number)).read())
        assert all(last[: len(seen)] == seen for seen in self.seen)
        assert (watched.fewest, watched.faults) == (dict.fromkeys(watched.fewest, 1), [])

    def _at_home(self, copy: Here, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(words) if copy is self.first else joined(self.first, *words)


def came_well(path: Path) -> list[str]:
    """List the phases of a record that ended well, in their order."""
    entries = Journal(path).read()
    return [e.phase for e in entries if isinstance(e, EndedPhase) and e.outcome == "ok"]


def not_as_recorded(here: Here, lab_dir: Path) -> list[str]:
    """Name what is not as the record of the latest rollout says: live, told to, or deployed."""
    fleet = load_fleet(here.folder / FILE)
    venue = LabVenue.of(fleet, surroundings(fleet, here.work_dir), lab_dir)
    rollouts = up_to_date(Rollouts(venue=venue))
    journal = rollouts.latest()
    assert journal is not None
    state, sources, wrong = journal.state(), rollouts.sources(), []
    for region, cluster in rollouts.regions.items():
        stack = rollouts.stack(region, sources)
        live, deployed = cluster.workloads(), stack.deployed()
        if region in state.serials and deployed.serial != state.serials[region]:
            wrong.append(f"{region}: serial {deployed.serial}, not {state.serials[region]}")
        for name, item in stack.rendered().items():
            has, meant = deployed.releases[name], state.assigned.get(name, deployed.releases[name])
            if why := differs(live[name], item) or ("" if has == meant else f"{has}, not {meant}"):
                wrong.append(f"{name}: {why}")
    return wrong
