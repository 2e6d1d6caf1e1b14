"""Choose the charts of a region's operators. Pure: a fleet comes in, charts go out.

What is chosen is data (operators.yaml); this file only puts together what the
fleet file asks for, what the cloud has already, and what it needs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, TypeAdapter

from fleet.clouds import Cloud
from fleet.load import Fleet
from fleet.operators_spec import OperatorSpec
from fleet.region_spec import named_region
from fleet.schema import FileModel
from fleet.spec import Backend

OperatorName = Literal["gpu_operator", "dra_driver", "lws", "dynamo"]

WORKLOADS: Mapping[Backend, OperatorName] = {"lws": "lws", "dgd": "dynamo"}


class OperatorFacts(FileModel):
    """What the data file says of one operator."""

    chart: str
    repository: str | None = None  # None: the chart is an address of OCI
    version: str
    namespace: str
    after: tuple[OperatorName, ...] = ()
    brings: tuple[str, ...] = ()
    absent: dict[Cloud, str] = Field(default_factory=dict)
    values: dict[str, Any] = Field(default_factory=dict)
    clouds: dict[Cloud, dict[str, Any]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart as it is to be installed."""

    name: OperatorName
    chart: str
    repository: str | None
    version: str
    namespace: str
    after: tuple[OperatorName, ...]
    brings: tuple[str, ...]
    values: Mapping[str, Any]


@functools.cache
def operator_facts() -> Mapping[OperatorName, OperatorFacts]:
    """Read the data file."""
    file = Path(__file__).with_name("operators.yaml")
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    return TypeAdapter(dict[OperatorName, OperatorFacts]).validate_python(found)


def region_charts(fleet: Fleet, region: str) -> tuple[Chart, ...]:
    """Give the charts of a region, each after what it needs; none unless the fleet file asks."""
    spec = named_region(fleet.spec.regions, region, fleet.spec.name)
    asked = fleet.spec.operators
    if asked.clusters == "made" and spec.is_there:
        return ()
    wanted: dict[OperatorName, OperatorSpec | None] = {
        "gpu_operator": asked.gpu_operator,
        "dra_driver": asked.dra_driver,
        WORKLOADS[fleet.spec.backend]: asked.workloads,
    }
    return tuple(_charts(wanted, spec.cloud))


def _charts(wanted: Mapping[OperatorName, OperatorSpec | None], cloud: Cloud) -> Iterator[Chart]:
    for name, facts in operator_facts().items():
        spec = wanted.get(name)
        if spec is None or cloud in facts.absent:
            continue
        yield Chart(
            name=name,
            chart=facts.chart,
            repository=facts.repository,
            version=spec.version or facts.version,
            namespace=facts.namespace,
            after=facts.after,
            brings=facts.brings,
            values=merged(facts.values, facts.clouds.get(cloud, {})),
        )


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay values over others as Helm does: mappings are merged, everything else is replaced."""
    found = dict(base)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            found[key] = merged(below, value)
        else:
            found[key] = value
    return found
