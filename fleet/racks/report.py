"""Read what a node says about itself: the report of `charts/platform/node-report.py`.

A report comes from a machine that may be broken or worse: it is small, every text in it is short,
and what is not as agreed is no report.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints, ValidationError

from fleet.schema import FileModel

SCHEMA = "k3fleet-node-report/1"
# What kubelet keeps of a container's last words (Kubernetes, "Determine the Reason for Pod
# Failure"): a report has to fit into it.
MAX_BYTES = 4096

Short = Annotated[str, StringConstraints(strict=True, max_length=128)]
Number = Annotated[StrictInt, Field(ge=0, le=2**63)]


class Imex(FileModel):
    """The host's own nvidia-imex service, which must leave its port to ComputeDomains."""

    state: Literal["masked", "enabled", "disabled", "absent", "unknown"]
    running: StrictBool | None = None  # None: it could not be seen


class Disk(FileModel):
    """What the folder of the weights lies on."""

    path: Short
    device: Short
    kind: Literal["raid0", "raid", "nvme", "other"]
    members: Number = 0  # NVMe disks below it
    bytes: Number = 0


class Fabric(FileModel):
    """The NVLink fabric as nvidia-smi tells it."""

    cluster: Short = ""
    clique: Short = ""
    state: Short = ""
    status: Short = ""
    chassis: Short = ""  # serial number of the rack
    tray: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None


class NodeReport(FileModel):
    """One node's report; None is what the node could not find out."""

    # "schema" is a method's name in pydantic.
    version: Literal["k3fleet-node-report/1"] = Field(alias="schema")
    node: Short
    arch: Short
    kernel: Short
    page_bytes: Number | None = None
    driver: Short | None = None
    gpus: Number | None = None
    imex: Imex | None = None
    disk: Disk | None = None
    fabric: Fabric | None = None


def read_report(content: str | bytes, node: str | None = None) -> NodeReport | str:
    """Read one report; else say why it is none. `node`: whose it has to be."""
    size = len(content.encode() if isinstance(content, str) else content)
    if size > MAX_BYTES:
        return f"a report of {size} bytes, {MAX_BYTES} are allowed"
    try:
        report = NodeReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:64]
        return f"no report: {where + ': ' if where else ''}{first['msg'][:160]}"
    if node is not None and report.node != node:
        return f"a report that calls itself {report.node}"
    return report
