"""Define the record of a rollout: what was meant, what came of it, what people asked.

Append-only. An intent is written before anything is touched and its outcome after, so that a
record read by another process, on another machine, after a kill at any moment, says what may
have happened: everything up to the last outcome, and perhaps the intent behind it.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleet.rollout.strategy import Deadlines, Floor, Gates
from fleet.schema import Count, FileModel, Text, refuse

# The parts of one step, in their order. Each may be done again without harm.
Phase = Literal[
    "preflight",  # enough others serve, weights are there, nobody else works here
    "drain",  # no new sessions; streams end
    "assign",  # the assignment is written down
    "apply",  # pulumi up
    "verify",  # live images and arguments are the release's
    "ready",  # all pods run and answer
    "registered",  # the frontends know the replica
    "smoke",  # it answers, asked directly
    "restore",  # back in routing
    "gates",  # live traffic is well
    "soak",  # and stays so, after the last step of a wave
]
PHASES: tuple[Phase, ...] = Phase.__args__  # type: ignore[attr-defined]
Outcome = Literal["ok", "failed", "inconclusive"]
Command = Literal["pause", "resume", "abort", "roll-back"]
Scope = Literal["replica", "rack", "region", "fleet"]
# Unix time, of the years 1 to 9999: what is no date cannot be shown as one.
Moment = Annotated[float, Field(ge=-62_135_596_800, le=253_402_300_799)]


class Place(FileModel):
    """A replica and where it is."""

    replica: Text
    rack: Text
    region: Text


class RecordedStep(FileModel):
    """A step as it was planned: replicas, or what all replicas of a region share."""

    wave: Text
    soak_s: float = 0.0  # after it, when it is the last of its wave
    expected_s: float | None = None  # of it without the soak, as the plan estimated
    places: tuple[Place, ...] = ()
    shared: Text | None = None  # the region whose frontends and gateway it changes

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if bool(self.places) == bool(self.shared):
            raise refuse("a step has replicas or a region's shared part", "Name one of the two")
        return self

    @property
    def regions(self) -> tuple[str, ...]:
        """Name the regions that it touches."""
        if self.shared:
            return (self.shared,)
        return tuple(dict.fromkeys(place.region for place in self.places))

    @property
    def names(self) -> tuple[str, ...]:
        """Name what it changes."""
        if self.shared:
            return (f"frontends and gateway of {self.shared}",)
        return tuple(place.replica for place in self.places)

    @property
    def most(self) -> int:
        """Count its replicas in the region that has most of them."""
        return max(Counter(place.region for place in self.places).values(), default=0)


class Started(FileModel):
    """The first entry: everything that the rollout needs, so that no other file is asked."""

    kind: Literal["started"] = "started"
    at_s: Moment
    by: Text
    old: Text  # release ids
    new: Text
    steps: tuple[RecordedStep, ...]
    on_fail: Literal["hold", "roll-back"]
    reruns: Count
    floor: Floor = Floor()
    deadlines: Deadlines = Deadlines()
    gates: dict[str, Gates] = Field(default_factory=dict)  # by wave
    # Release id -> preset, or file as seen from the fleet file: any process can render them.
    releases: dict[str, str] = Field(default_factory=dict)
    # Region -> serial of its assignment before the first step; each writing of one adds one, so
    # that every reader of the record knows which serial belongs to which assignment.
    serials: dict[str, Count] = Field(default_factory=dict)
    webhook: Text | None = None  # of the strategy; no secret
    expected_s: float | None = None  # of all of it, as the plan estimated


class Began(FileModel):
    """A phase is about to touch something."""

    kind: Literal["began"] = "began"
    at_s: Moment
    phase: Phase


class Seen(FileModel):
    """What a region's frontends had counted; new ones begin at zero."""

    requests: float
    errors: float
    prompt_tokens: float
    cached_tokens: float


class Ended(FileModel):
    """A phase has an outcome; `why` says what a person has to know."""

    kind: Literal["ended"] = "ended"
    at_s: Moment
    phase: Phase
    outcome: Outcome
    why: str = ""
    seen: Seen | None = None  # before the step made frontends forget it


class Asked(FileModel):
    """A person, or the strategy, asked for something."""

    kind: Literal["asked"] = "asked"
    at_s: Moment
    by: Text
    command: Command
    scope: Scope = "fleet"  # of a roll-back, seen from the step that runs
    step: Count = 0  # of a roll-back: the last one that stays
    overwrite: bool = False  # of a resume: what somebody changed by hand in the step may go
    why: str = ""


Entry = Annotated[Started | Began | Ended | Asked, Field(discriminator="kind")]
