"""Read what a rehearsal adds to the report of its load test: steps, racks, the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from loadtest.report.document import (
    Known,
    LoadReport,
    Number,
    Pairs,
    Part,
    Rows,
    Section,
    Text,
    Texts,
    read_as,
)


class Step(Section):
    name: Text = ""
    seconds: Number = None
    status: Text = ""
    detail: Text = ""


class Node(Section):
    name: Text = ""
    healthy: Known = None
    replica: Text = ""
    role: Text = ""
    pod: Text = ""


class Rack(Section):
    region: Text = ""
    id: Text = ""
    nodes: Annotated[tuple[Node, ...], Rows] = ()
    replicas: Number = None


class Packing(Section):
    status: Text = ""
    problems: Texts = ()
    racks: Annotated[tuple[Rack, ...], Rows] = ()


class Totals(Section):
    racks: Number = None
    replicas: Number = None
    gpus: Number = None


class Plan(Section):
    totals: Annotated[Totals, Part] = Totals()


class Report(LoadReport):
    """Everything that one rehearsal found."""

    steps: Annotated[tuple[Step, ...], Rows] = ()
    plan: Annotated[Plan, Part] = Plan()
    packing: Annotated[Packing, Part] = Packing()
    release: Pairs = Field(default_factory=dict)
    router: Pairs = Field(default_factory=dict)

    @property
    def region_names(self) -> tuple[str, ...]:
        """Name the regions, those that got no traffic last."""
        names = (*super().region_names, *(rack.region for rack in self.packing.racks))
        return tuple(dict.fromkeys(name for name in names if name))


def read_report(raw: Mapping[str, Any] | Report) -> Report:
    """Return the report of a rehearsal."""
    return read_as(Report, raw)
