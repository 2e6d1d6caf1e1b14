"""A world in which a rollout can go wrong: replicas, routing, and Pulumi's idea of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from fleet.rollout.record import (
    Asked,
    Began,
    Ended,
    Entry,
    Outcome,
    Place,
    RecordedStep,
    Seen,
    Started,
)
from fleet.rollout.state import Do, Over, State, Wait, after, next_action, read_state
from fleet.session_shares import Shares, never_less, shares_of
from fleet.traffic_shift import TOTAL_WEIGHT

Touch = Callable[[], None]

OLD, NEW = "old-1", "new-2"
# Two regions, three racks; a step of two replicas, one of two regions, one of a single one. What a
# region shares comes behind its replicas: named like a replica here, since it is written, applied
# and looked at like one.
FLEET = {
    "a1": [("canary", "a1-0")],
    "a1+": [("canary-rack", "a1-1"), ("canary-rack", "a1-2")],
    "ab": [("rest", "a2-0"), ("rest", "b1-0")],
    "A": [("rest", "shared a")],
    "b": [("rest", "b1-1")],
    "B": [("rest", "shared b")],
}
PARTS = [name for step in FLEET.values() for _, name in step]
REPLICAS = [name for name in PARTS if not name.startswith("shared")]
FLOOR = 0.5  # of each region's replicas


class KilledError(Exception):
    """The process that drives the rollout is gone; the next one only has the record."""


def place(name: str) -> Place:
    rack = name.partition("-")[0]
    return Place(replica=name, rack=rack, region=rack[0])


def region_of(part: str) -> str:
    return part.removeprefix("shared ")[0]


def parts(step: RecordedStep) -> list[str]:
    """Name what a step changes."""
    return [f"shared {step.shared}"] if step.shared else [p.replica for p in step.places]


def _step(wave: str, names: list[str]) -> RecordedStep:
    if names[0].startswith("shared"):
        return RecordedStep(wave=wave, soak_s=60.0, shared=region_of(names[0]))
    return RecordedStep(wave=wave, soak_s=60.0, places=tuple(map(place, names)))


def started(on_fail: str = "hold", reruns: int = 1) -> Started:
    steps = tuple(_step(step[0][0], [name for _, name in step]) for step in FLEET.values())
    return Started.model_validate(
        {"at_s": 0.0, "by": "t", "old": OLD, "new": NEW, "steps": steps}
        | {"on_fail": on_fail, "reruns": reruns}
    )


@dataclass
class World:
    """What is true, whoever remembers it.

    `stored` is Pulumi's state: after a cancelled update it still says what was before, and an
    update that trusts it then changes nothing while the wrong release runs.
    """

    record: list[Entry]
    state: State = field(init=False)
    live: dict[str, str] = field(default_factory=lambda: dict.fromkeys(PARTS, OLD))
    stored: dict[str, str] = field(default_factory=lambda: dict.fromkeys(PARTS, OLD))
    assigned: dict[str, str] = field(default_factory=lambda: dict.fromkeys(PARTS, OLD))
    routed: set[str] = field(default_factory=lambda: set(REPLICAS))
    starts: list[tuple[str, str]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)  # replicas whose nodes are down
    # What gateways are told of the two releases, which are kept apart, by region.
    told: dict[str, Shares] = field(
        default_factory=lambda: {region: {OLD: TOTAL_WEIGHT, NEW: 0} for region in "ab"}
    )

    def __post_init__(self) -> None:
        self.state = read_state(self.record)

    @property
    def up(self) -> set[str]:
        """Name the replicas that serve."""
        return self.routed - self.lost

    @property
    def low(self) -> set[str]:
        """Name the regions in which fewer serve than the floor."""
        regions = {region_of(name) for name in REPLICAS}
        return {name for name in regions if self._count(self.up, name) < self._floor(name)}

    def _count(self, replicas: Iterable[str], region: str) -> int:
        return sum(region_of(name) == region for name in replicas)

    def _floor(self, region: str) -> float:
        return FLOOR * self._count(REPLICAS, region)

    def _refused(self, names: Iterable[str], *, others: bool) -> bool:
        """Say whether a site would not let replicas go: too few would serve, or others are lost."""
        step = set(names)
        leaving = {region_of(name) for name in step & self.up}
        left = self.up - step
        too_few = any(self._count(left, name) < self._floor(name) for name in leaving)
        regions = {region_of(name) for name in step}
        absent = {name for name in self.lost - step if region_of(name) in regions}
        return too_few or (others and bool(absent))

    @property
    def action(self) -> Do | Wait | Over:
        return next_action(self.state)

    def ask(self, command: str, scope: str = "fleet", **more: object) -> None:
        entry = {"at_s": 0.0, "by": "t", "command": command, "scope": scope, **more}
        self._write(Asked.model_validate(entry))

    def killed(self, at: int) -> None:
        """Do one phase and die in it, perhaps; `at` counts what is touched before."""
        touched = iter(range(100))

        def touch() -> None:
            if next(touched) == at:
                raise KilledError

        with suppress(KilledError):
            self.go(touch=touch)
        self.state = read_state(self.record)

    def go(
        self, outcome: Outcome = "ok", *, touch: Touch = lambda: None, seen: Seen | None = None
    ) -> None:
        """Do one phase; `touch` is called around whatever cannot be taken back."""
        action = self.action
        assert isinstance(action, Do)
        touch()
        self._write(Began(at_s=0.0, phase=action.phase))
        touch()
        true_outcome = self.act(action, outcome, touch)
        touch()
        why = "" if true_outcome == "ok" else f"{action.phase} went wrong"
        self._write(Ended(at_s=0.0, phase=action.phase, outcome=true_outcome, why=why, seen=seen))

    def act(self, action: Do, outcome: Outcome, touch: Touch) -> Outcome:
        """Do what a phase does, without a word in the record."""
        names = parts(action.step)
        match action.phase:
            case "preflight" if self._refused(names, others=action.target == NEW):
                return "inconclusive"
            case "drain" if self._refused(names, others=False):
                return "inconclusive"
            case "drain":
                self._share(action, touch, without=names)
                for name in set(names) & set(REPLICAS):
                    self.routed.discard(name)
                    touch()
            case "assign":
                self.assigned.update(dict.fromkeys(names, action.target))
            case "apply":
                self._apply(outcome, touch, refresh=action.refresh)
            case "verify":
                wrong = [name for name in names if self.live[name] != action.target]
                assert not wrong, f"{wrong} run another release after a clean apply"
            case "restore" if outcome == "ok":
                for name in set(names) & set(REPLICAS):
                    self.routed.add(name)
                    touch()
                self._share(action, touch)
        return outcome

    def serving(self, region: str, without: Collection[str] = ()) -> dict[str, int]:
        """Count the replicas in routing by their release."""
        names = [n for n in self.routed if region_of(n) == region and n not in without]
        return {release: [self.live[n] for n in names].count(release) for release in (OLD, NEW)}

    def _share(self, action: Do, touch: Touch, without: Collection[str] = ()) -> None:
        for region in dict.fromkeys(place.region for place in action.step.places):
            before = self.told[region]
            wanted = shares_of(self.serving(region, without)) or before
            self.told[region] = never_less(wanted, before, action.target)
            touch()

    def _apply(self, outcome: Outcome, touch: Touch, *, refresh: bool) -> None:
        if refresh:
            self.stored = dict(self.live)
        for name, release in self.assigned.items():
            if self.stored[name] == release:
                continue
            self.live[name] = release
            self.starts.append((name, release))
            touch()
            if outcome == "ok":
                self.stored[name] = release

    def _write(self, entry: Entry) -> None:
        """Append, as another process reads it: through JSON."""
        entry = type(entry).model_validate_json(entry.model_dump_json())
        self.record.append(entry)
        assert not isinstance(entry, Started)
        self.state = after(self.state, entry)
