"""Start an API server of one Kubernetes version, with one set of definitions of custom kinds.

No scheduler and no nodes: what is applied is judged and kept, and nobody acts on it.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from api_server import Answer, ApiServer, KubeObject
from schema_crds import definition

from cli.wiring import tool_surroundings
from infra.lint.core_schema import Version, custom_kinds
from lab.control_plane import ControlPlane
from lab.network import RegionNetwork
from lab.processes import Launcher, lab_mark, process_environ
from lab.reservation import reserve_network
from lab.toolchain import ensure_tools

ROOT = Path(__file__).parents[2]
LAB_CRDS = ROOT / "lab" / "crds"
UPSTREAM_CRDS = ROOT.parent / "shared" / "data" / "crds"
_UPSTREAM = (
    "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    "nvidia.com_dynamographdeployments.v1beta1.crd.yaml",
    "resource.nvidia.com_computedomains.yaml",
)
# A region brings this one itself.
_RENDERED = "DynamoWorkerMetadata"
# Type-checks policies; everything else that controllers do is not wanted.
POLICY_CHECKER = "validatingadmissionpolicy-status-controller"
WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneSpec:
    """Which API server: its version, and whose definitions of the custom kinds.

    `ours`: the linter's schemas, pod templates spelled out; `lab`: those that the lab installs, and
    the linter's for other kinds; `upstream`: the operators', and the linter's for other kinds.
    """

    version: Version
    kinds: str

    def __str__(self) -> str:
        """Name it in pytest's output."""
        return f"{self.kubernetes}-{self.kinds}"

    @property
    def kubernetes(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version))

    @property
    def available(self) -> bool:
        """Whether its definitions are on this machine."""
        return self.kinds != "upstream" or UPSTREAM_CRDS.is_dir()

    def definitions(self) -> list[dict[str, Any]]:
        """Read or make the definition of each custom kind that a region has."""
        paths = {
            "ours": [],
            "lab": sorted(LAB_CRDS.glob("*.yaml")),
            "upstream": [UPSTREAM_CRDS / name for name in _UPSTREAM],
        }[self.kinds]
        found = [_read(path) for path in paths]
        have = {_RENDERED, *(item["spec"]["names"]["kind"] for item in found)}
        missing = [kind for kind in custom_kinds() if kind[1] not in have]
        return found + [definition(kind, self.version) for kind in missing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A running API server."""

    spec: PlaneSpec
    server: ApiServer
    control: ControlPlane
    dry_runs: dict[str, Answer] = field(default_factory=dict)

    def apply(self, item: KubeObject, *, keep: bool = False) -> Answer:
        """Apply an object; of equal dry runs, which regions have many of, only one is sent."""
        if keep:
            return self.server.apply(item, keep=True)
        text = json.dumps(item)
        if text not in self.dry_runs:
            self.dry_runs[text] = self.server.apply(item, keep=False)
        return self.dry_runs[text]

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; fail at once when the API server dies."""
        self.control.launcher.wait(what, holds, timeout_s=WAIT_S)

    def check_policies(self) -> None:
        """Start what type-checks admission policies, which has to see the kinds first."""
        self.control.start_controllers(POLICY_CHECKER)


@contextmanager
def running(spec: PlaneSpec, folder: Path) -> Iterator[Plane]:
    """Start an API server, and end it."""
    cache_dir, environ = tool_surroundings()
    number, reservation = reserve_network(zlib.crc32(str(folder).encode()))
    launcher = Launcher(
        lab_id=lab_mark(uuid.uuid4().hex, folder),
        log_dir=folder / "logs",
        environ=process_environ(os.environ),
    )
    control = ControlPlane(
        address=RegionNetwork(lab=number, index=0).control_plane,
        folder=folder / "plane",
        toolchain=ensure_tools(cache_dir=cache_dir, environ=environ, progress=_Silent()),
        launcher=launcher,
        emulated_version=spec.kubernetes,
    )
    control.folder.mkdir()
    with closing(reservation):
        try:
            control.start(datetime.now(UTC))
            control.wait_api()
            with closing(ApiServer(url=control.url, pki=control.pki)) as server:
                plane = Plane(spec=spec, server=server, control=control)
                _install(plane)
                yield plane
        finally:
            launcher.stop()


def _install(plane: Plane) -> None:
    definitions = plane.spec.definitions()
    for item in definitions:
        answer = plane.server.apply(item, keep=True)
        assert answer.accepted, answer.message
    for item in definitions:
        names, version = item["spec"]["names"], item["spec"]["versions"][0]["name"]
        kind = {"apiVersion": f"{item['spec']['group']}/{version}", "kind": names["kind"]}
        plane.wait(f"{kind}: served", partial(plane.server.knows, kind))


def _read(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        loaded: dict[str, Any] = yaml.load(file, Loader=yaml.CSafeLoader)
    return loaded


class _Silent:
    """Progress that nobody watches."""

    def step(self, name: str) -> None:
        """Begin a step."""

    def update(self, text: str) -> None:
        """Say how the step stands."""
