"""Read a record into the state of its rollout, and decide what is next.

A fold over the entries, so that two processes with the same record always agree. The rules:
a step goes through all phases in order; a phase without an outcome is done again; pausing
waits for the end of the step; turning back starts with the step that was under way and goes on
with those that have the new release, the latest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from fleet.errors import ConfigError
from fleet.rollout.record import (
    PHASES,
    Asked,
    Began,
    Command,
    Ended,
    Entry,
    Phase,
    RecordedStep,
    Scope,
    Seen,
    Started,
)
from fleet.rollout.turning import Has, Part, parts_of, way_back, within

Status = Literal["running", "paused", "held", "done", "aborted", "rolled-back"]
OVER: tuple[Status, ...] = ("done", "aborted", "rolled-back")
WAYS_ON: tuple[Command, ...] = ("resume", "abort", "roll-back")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a rollout is.

    `queue` holds the steps still to do, the current one first. `assigned` says what each replica
    should run as far as it was, or may have been, written down, and `shared` which release the
    frontends and the gateway of a region should follow. `began`: the current phase has no
    outcome yet and may have touched something. `clean`: the last apply ended well, and nobody
    has turned the rollout round since; else the next one has to look at the live objects.
    """

    started: Started
    queue: tuple[RecordedStep, ...]
    assigned: Mapping[str, str]
    shared: Mapping[str, str] = field(default_factory=dict)
    phase: Phase = PHASES[0]
    began: bool = False
    touched: bool = False  # the current step's replicas may be out of routing
    clean: bool = True
    back: bool = False  # towards the old release
    unsure: int = 0  # times that this phase was inconclusive
    status: Status = "running"
    pausing: bool = False  # once the current step is over
    then: Status = "done"  # what it will be when the queue is empty
    why: str = ""
    writes: Mapping[str, int] = field(default_factory=dict)  # of assignments, by region
    overwrite: bool = False  # what was changed by hand in the current step may go
    seen: Seen | None = None  # what frontends had counted before the current step changed them

    @property
    def serials(self) -> Mapping[str, int]:
        """Say which serial the assignment of each region of the rollout has by now."""
        return {
            name: self.started.serials.get(name, 0) + self.writes.get(name, 0)
            for name in dict.fromkeys(n for step in self.started.steps for n in step.regions)
        }

    @property
    def target(self) -> str:
        """The id of the release that the current step leads to."""
        return self.started.old if self.back else self.started.new


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """Do a phase of a step; `refresh`: trust no stored state of what is live."""

    step: RecordedStep
    phase: Phase
    target: str
    refresh: bool
    serials: Mapping[str, int] = field(default_factory=dict)  # of the assignments, by region
    overwrite: bool = False  # what somebody changed by hand in the step
    seen: Seen | None = None  # what frontends had counted before the step changed them


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing until somebody decides."""

    why: str
    ways: tuple[Command, ...] = WAYS_ON


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """There is nothing to do."""

    status: Status


def next_action(state: State) -> Do | Wait | Over:
    """Say what the rollout does now."""
    if state.status in OVER:
        return Over(status=state.status)
    if state.status != "running":
        return Wait(why=state.why)
    refresh = not state.clean or (state.phase == "apply" and state.began)
    return Do(
        step=state.queue[0],
        phase=state.phase,
        target=state.target,
        refresh=refresh,
        serials=_began(state).serials,
        overwrite=state.overwrite or state.back,
        seen=state.seen,
    )


def read_state(entries: Iterable[Entry]) -> State:
    """Fold a record; raise ConfigError for one that no rollout can have written."""
    return read_on(None, entries)


def read_on(state: State | None, entries: Iterable[Entry], known: int = 0) -> State:
    """Fold what came behind the first `known` entries of a record, which led to `state`."""
    for number, entry in enumerate(entries, known + 1):
        if isinstance(entry, Started):
            if state is not None:
                raise _broken(number, "it starts a second time")
            state = _started(entry)
        elif state is None:
            raise _broken(number, "the start is missing")
        else:
            state = after(state, entry, number)
    if state is None:
        raise _broken(0, "it is empty")
    return state


def after(state: State, entry: Began | Ended | Asked, number: int = 0) -> State:
    """Give the state behind one more entry; `number` is for the message of a broken record."""
    if isinstance(entry, Asked):
        return _asked(state, entry)
    if state.status != "running" or entry.phase != state.phase:
        raise _broken(number, f"phase {entry.phase} {entry.kind} at {state.phase}, {state.status}")
    return _began(state) if isinstance(entry, Began) else _ended(state, entry)


def refusal(state: State, command: Command, keep: int = 0) -> str | None:
    """Say why a command makes no sense now, or None where it does.

    `keep`: the steps that a roll-back leaves as they are.
    """
    if command == "roll-back":
        done = len(state.started.steps) - len(state.queue)
        if state.touched and not state.back and done < keep:
            return f"step {keep} is not over"
        nothing = not _turned(state, "fleet", keep)
        after = f" after step {keep}" if keep else ""
        return f"no replica has the new release{after}" if nothing else None
    if state.status in OVER:
        return f"the rollout is {state.status}"
    if command == "resume" and state.status == "running" and not state.pausing:
        return "the rollout is running"
    if command == "pause" and state.status != "running":
        return f"the rollout is {state.status} already"
    return None


def _broken(number: int, what: str) -> ConfigError:
    return ConfigError(f"record, entry {number}: {what}. Restore the file from a copy.")


def _started(entry: Started) -> State:
    return State(
        started=entry,
        queue=entry.steps,
        assigned={place.replica: entry.old for step in entry.steps for place in step.places},
        shared={step.shared: entry.old for step in entry.steps if step.shared},
        status="running" if entry.steps else "done",
    )


def _began(state: State) -> State:
    began = replace(state, began=True, touched=state.touched or state.phase != PHASES[0])
    if state.phase != "assign":
        return began
    step = state.queue[0]
    written = {place.replica: state.target for place in step.places}
    shared = {step.shared: state.target} if step.shared else {}
    writes = {**state.writes, **{name: state.writes.get(name, 0) + 1 for name in step.regions}}
    return replace(
        began,
        assigned={**state.assigned, **written},
        shared={**state.shared, **shared},
        writes=writes,
    )


def _ended(state: State, entry: Ended) -> State:
    applied = entry.phase == "apply"
    if entry.outcome == "ok":
        done = replace(state, began=False, unsure=0, why="", clean=state.clean or applied)
        return _next(replace(done, seen=entry.seen or state.seen))
    state = replace(state, began=False, clean=state.clean and not applied, why=entry.why)
    if entry.outcome == "inconclusive" and state.unsure < state.started.reruns:
        return replace(state, unsure=state.unsure + 1)
    if entry.outcome == "failed" and state.started.on_fail == "roll-back" and not state.back:
        return _turn(state, "fleet")
    return replace(state, status="held", unsure=0)


def _next(state: State) -> State:
    """Go on to the next phase, or behind the last one to the next step."""
    index = PHASES.index(state.phase) + 1
    if index < len(PHASES):
        return replace(state, phase=PHASES[index])
    state = replace(
        state, queue=state.queue[1:], phase=PHASES[0], touched=False, overwrite=False, seen=None
    )
    if not state.queue:
        return replace(state, status=state.then, pausing=False)
    return _paused(state) if state.pausing else state


def _asked(state: State, entry: Asked) -> State:
    if refusal(state, entry.command, entry.step) is not None:
        return state  # two operators may have asked at once; the second finds it done
    match entry.command:
        case "pause":
            return replace(state, pausing=True) if state.touched else _paused(state)
        case "resume":
            return replace(_resumed(state), overwrite=state.overwrite or entry.overwrite)
        case "abort":
            return _aborted(state)
        case "roll-back":
            return _turn(replace(state, why=entry.why), entry.scope, entry.step)


def _paused(state: State) -> State:
    return replace(state, status="paused", pausing=False, why="paused")


def _resumed(state: State) -> State:
    """Go on; what was held behind an apply is applied and checked again."""
    resumed = replace(state, status="running", pausing=False, why="")
    if state.status != "held" or PHASES.index(state.phase) < PHASES.index("apply"):
        return resumed
    return replace(resumed, phase="apply", clean=False)


def _aborted(state: State) -> State:
    """Stop, but leave no replica half done."""
    if not state.touched:
        return replace(state, queue=(), status="aborted", pausing=False)
    if state.back:
        going_on = replace(state, status="running", pausing=False, then="aborted")
        return replace(going_on, queue=state.queue[:1])
    return _back(state, state.queue[:1], "aborted")


def _turn(state: State, scope: Scope, keep: int = 0) -> State:
    queue = _turned(state, scope, keep)
    if not state.back or state.status in OVER:
        return _back(state, queue, "rolled-back")
    going = frozenset[Part]().union(*map(parts_of, state.queue))
    asked = frozenset[Part]().union(*map(parts_of, queue))
    if asked <= going:
        return replace(_resumed(state), then="rolled-back")
    return _back(state, within(_turned(state, "fleet", 0), going | asked), "rolled-back")


def _back(state: State, queue: tuple[RecordedStep, ...], then: Status) -> State:
    return replace(
        state,
        queue=tuple(step.model_copy(update={"soak_s": 0.0}) for step in queue),
        phase=PHASES[0],
        began=False,
        clean=False,
        back=True,
        unsure=0,
        seen=None,
        status="running" if queue else then,
        pausing=False,
        then=then,
    )


def _turned(state: State, scope: Scope, keep: int) -> tuple[RecordedStep, ...]:
    has = Has(replicas=state.assigned, shared=state.shared)
    under_way = state.queue[:1] if state.touched else ()
    return way_back(state.started, has, under_way, scope, keep)
