"""Describe a cluster that is there already: on-premises, or of a cloud without a program here.

k3fleet makes nothing in such a cloud. It checks, and hands on how the cluster is
reached and which racks it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from fleet.clouds.part import CloudSchema, Fault
from fleet.schema import FileModel, LabelValue, Text, found_text, refuse

_ADDRESS = re.compile(r"https://[A-Za-z0-9.\-\[\]:]+(?:/[\w./-]*)?")


def _https(text: str) -> str:
    if "@" in text:  # not shown: what stands before it may be a secret
        raise refuse("the address names a user or a password", "Write https://HOST:PORT alone")
    if not _ADDRESS.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no address of an API server", "Write https://HOST:PORT"
        )
    return text


class Cluster(FileModel):
    """What is known of a cluster that somebody else made."""

    name: Text | None = None  # None: the region's
    # Only to be told to readers of the stack; the kubeconfig decides what is reached.
    endpoint: Annotated[str, AfterValidator(_https)] | None = None
    # The label by which the cluster's owner tells racks apart, for example
    # ds.coreweave.com/nvlink.domain; None: nodes carry k3fleet.io/rack already.
    rack_label: Annotated[Text, Field(max_length=317)] | None = None  # 253 prefix, /, 63 name


class Rack(FileModel):
    """Which of the cluster's racks this is."""

    label_value: LabelValue = Field(description="the value of cluster.rack_label on its nodes")


def _faults(cluster: Cluster, racks: Mapping[int, Rack]) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, rack in racks.items():
        path = ("racks", index, "capacity", "label_value")
        if cluster.rack_label is None:
            what = "there is no cluster.rack_label that it could be the value of"
            yield Fault(path, what, "Name the label, or leave the capacity out")
        elif rack.label_value in seen:
            what = f"{rack.label_value!r} is the value of racks[{seen[rack.label_value]}] too"
            yield Fault(path, what, "Give each rack the value of its own nodes")
        seen.setdefault(rack.label_value, index)


SCHEMA = CloudSchema(cluster=Cluster, rack=Rack, needs_capacity=False, faults=_faults)
