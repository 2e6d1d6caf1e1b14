"""Have every node of a rack say what it is made of, for `k3fleet racks preflight`.

A DaemonSet runs `charts/platform/node-report.py`. It has no right at the API server: the report is
what its containers say last, which kubelet keeps, at most 4096 bytes of it, in the pod's status.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fleet.load import Fleet
from fleet.plan import RegionPlan
from infra.options import Options

ACCOUNT = APP = "node-report"
HOST = "/host"  # in the pod: where the node's folders are seen
INTERVAL_S = 300  # between two looks; only a change is reported anew
LAST_WORDS = "/dev/termination-log"  # Kubernetes' default terminationMessagePath
HASH_DIGITS = 8

_SCRIPT = Path(__file__).resolve().parent.parent / "charts/platform/node-report.py"
# What says whether the host's IMEX service may start, and whether it runs.
_FOLDERS = {
    "units": "/etc/systemd/system",
    "unit-files": "/usr/lib/systemd/system",
    "run-units": "/run/systemd/system",
    "services": "/sys/fs/cgroup/system.slice",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of the node, to look at."""

    name: str
    path: str

    @property
    def at(self) -> str:
        """Where the pod sees it."""
        return HOST + self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The first reports once; the second ends with a new report when something changes."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReportValues:
    """The reports of one region's nodes."""

    account: str
    image: str
    image_pull: str | None
    runtime_class: str | None
    config_map: str
    script: str
    arch: str
    racks: tuple[str, ...]
    mounts: tuple[Mount, ...]
    containers: tuple[Container, ...]


def node_report_values(
    fleet: Fleet, region: RegionPlan, options: Options
) -> NodeReportValues | None:
    """Compute the node reports; None where the fleet file does not ask for them."""
    spec = fleet.spec.node_report
    if spec is None or options.bare:
        return None
    script = _SCRIPT.read_text(encoding="utf-8")
    folder = (spec.folder or options.weights_dir).rstrip("/")
    folders = dict(_FOLDERS)
    if spec.folder or options.weights_claim is None:  # with a claim, nodes need not have it
        folders["weights"] = folder
    command = ("python3", "/report/node-report.py", "--host", HOST, "--folder", folder)
    state = ("--out", LAST_WORDS, "--keep", "/state/last.json")
    return NodeReportValues(
        account=ACCOUNT,
        image=spec.image,
        image_pull=fleet.spec.secrets.image_pull,
        runtime_class=spec.runtime_class,
        config_map=f"{APP}-{hashlib.sha256(script.encode()).hexdigest()[:HASH_DIGITS]}",
        script=script,
        arch=fleet.hardware.arch,
        racks=tuple(sorted(rack.id for rack in region.racks)),
        mounts=tuple(Mount(name=name, path=path) for name, path in folders.items()),
        containers=(
            Container(name="report", command=(*command, *state)),
            Container(name="watch", command=(*command, *state, "--watch", str(INTERVAL_S))),
        ),
    )
