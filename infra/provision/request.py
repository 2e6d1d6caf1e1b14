"""Say what is asked of a fleet's stacks, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from fleet.errors import FleetError
from infra.provision.guard import Allowed, Finding
from infra.settings import StackLayer
from infra.stack_events import Touched
from infra.stacks import UpResult

Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which stacks, and how."""

    regions: tuple[str, ...]
    layers: tuple[StackLayer, ...]  # in the order in which they are built
    given: frozenset[str] = frozenset()  # regions whose cluster is there: nothing makes it
    allowed: Allowed = field(default_factory=Allowed)
    unasked: bool = False  # nobody reads the plan before it is done
    refresh: bool = False
    repair: bool = False
    policy_packs: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[tuple[str, tuple[StackLayer, ...]], ...]:
        """Give region and layers of each track; the global one, without a region, comes first."""
        shared = tuple(layer for layer in self.layers if layer == "global")
        first = (("", shared),) if shared else ()
        regions = ((region, self._own(region)) for region in self.regions)
        return first + tuple((region, own) for region, own in regions if own)

    def _own(self, region: str) -> tuple[StackLayer, ...]:
        left_out = {"global", "cluster"} if region in self.given else {"global"}
        return tuple(layer for layer in self.layers if layer not in left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Something that a teardown leaves where it is."""

    name: str
    urn: str
    why: Literal["protected", "needed", "retained"]

    def __str__(self) -> str:
        """Say what it is, and why it stays."""
        match self.why:
            case "protected":
                return f"{self.name} (protected; let go by --allow-delete {self.name})"
            case "needed":
                return f"{self.name} (something protected stands on it)"
            case "retained":
                return f"{self.name} (Pulumi forgets it; delete it by hand when nothing needs it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What an action would do to one stack."""

    stack: str
    layer: StackLayer
    new: bool = False
    put_off: bool = False  # what it stands on is not there yet
    changes: Mapping[str, int] = field(default_factory=dict)
    touched: tuple[Touched, ...] = ()
    findings: tuple[Finding, ...] = ()
    lets_go: tuple[str, ...] = ()  # URNs of what is protected, and was named
    stays: tuple[Stay, ...] = ()  # of a teardown: what is there afterwards all the same
    pending: bool = False
    idle: bool = False  # there is nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResult:
    """What an action came to on one stack."""

    stack: str
    layer: StackLayer
    status: Status
    changes: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    events: str = ""
    why: str = ""  # of a failure
    stays: tuple[Stay, ...] = ()  # of a teardown

    @classmethod
    def of(cls, layer: StackLayer, ended: UpResult) -> StackResult:
        """Sum up a run that ended well."""
        return cls(
            stack=ended.stack,
            layer=layer,
            status="ok",
            changes=ended.changes,
            seconds=ended.seconds,
            events=str(ended.events or ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of one region; `error` is why there is no more of it."""

    region: str  # empty: what all regions share
    stacks: tuple[StackPlan, ...]
    error: FleetError | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.error is None and all(stack.idle for stack in self.stacks)

    def standing(self, *, firmly: bool) -> Planned:
        """Call nothing idle that stands on what will change, or may; `firmly`: below all this."""
        stacks: list[StackPlan] = []
        for stack in self.stacks:
            stacks.append(replace(stack, idle=stack.idle and firmly))
            firmly = stacks[-1].idle
        return replace(self, stacks=tuple(stacks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of one region."""

    region: str
    stacks: tuple[StackResult, ...]
    error: FleetError | None = None
