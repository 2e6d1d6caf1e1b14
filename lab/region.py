"""One region of a lab: its control plane, its nodes, its agent, and what can be read from it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import yaml
from lightkube import Client, KubeConfig
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Node

from fleet.errors import LabError
from fleet.hardware import Hardware
from fleet.region_spec import RegionSpec
from fleet.release import Role
from infra.options import Options
from infra.render import CRDS
from lab import control_plane as plane_module
from lab.agent_settings import AgentSettings
from lab.api import plain, typed
from lab.containers import ROOT
from lab.control_plane import ControlPlane
from lab.events import EVENTS_FILE, often_ended, read_events
from lab.network import RegionNetwork
from lab.nodes import HEALTH_LABEL, RACK_LABEL, cpu_nodes, rack_nodes
from lab.packing_check import NodeView
from lab.pods import PodView
from lab.ports import require_free_port
from lab.processes import log_tail
from lab.reach import FRONTEND_PORT, RegionReach

CRD_FOLDERS = (Path(__file__).with_name("crds"), CRDS)
NODES_TIMEOUT_S = 60.0
SYSTEM_PORT = 9090


@dataclass(frozen=True, kw_only=True)
class LabRegion:
    """One region while the lab runs."""

    spec: RegionSpec
    roles: Mapping[str, Role]  # by replica
    hardware: Hardware
    namespace: str
    network: RegionNetwork
    plane: ControlPlane
    gateway_port: int
    engine_port: int | None  # where the gateway asks engines, when there are no frontends

    @property
    def name(self) -> str:
        """The region's name."""
        return self.spec.name

    @property
    def gateway_address(self) -> str:
        """Where the region's gateway is reached, as host:port."""
        return f"{self.network.gateway}:{self.gateway_port}"

    @property
    def gateway_url(self) -> str:
        """Where the region's gateway is reached."""
        return f"http://{self.gateway_address}"

    def options(self, gateways: Mapping[str, str]) -> Options:
        """Say how the region differs from one in a cluster; `gateways`: of all regions."""
        return Options(
            dra=False,  # there is no DRA driver in a lab
            bare=True,
            gateway_listen=self.network.gateway,
            gateway_addresses=gateways,
            gateway_root=ROOT,
            gateway_admin_port=0,  # of 127.0.0.1, which all labs share
            dns_server=f"{self.network.control_plane}:{plane_module.DNS_PORT}",
        )

    def require_staying(self, starts: int) -> None:
        """Raise LabError when a pod's process has ended by itself so often."""
        if event := often_ended(read_events(self.events_file), starts):
            log = self.plane.folder / "logs" / f"{self.name}-{event.pod}.log"
            raise LabError(
                f"{event.pod}: started {starts} times, {event.detail}. See {log}.\n{log_tail(log)}"
            )

    @property
    def events_file(self) -> Path:
        """Where the region's node agent records what happens to pods."""
        return self.plane.folder / EVENTS_FILE

    @cached_property
    def client(self) -> Client:
        """Client of the region's API server, as administrator."""
        config = KubeConfig.from_file(self.plane.kubeconfig)
        return Client(config=config, namespace=self.namespace, trust_env=False)

    def check_ports(self) -> None:
        """Raise when something else already listens where this region has to."""
        control = self.network.control_plane
        ports = (
            *((control, port) for port in plane_module.PORTS),
            (self.network.gateway, self.gateway_port),
            (self.network.pod(0), FRONTEND_PORT),
            (self.network.pod(0), SYSTEM_PORT),
        )
        fix = "End what listens there; for the gateway, gateway.port in the fleet file may change."
        for address, port in ports:
            require_free_port(address, port, fix)

    def start(self, now: dt.datetime) -> None:
        """Start etcd and the API server without waiting."""
        self.plane.folder.mkdir(parents=True, exist_ok=True)
        self.plane.start(now)

    def make_ready(self) -> None:
        """Wait for the control plane, install the custom kinds, create the nodes."""
        self.plane.wait_ready()
        with self._api():
            for folder in CRD_FOLDERS:
                for path in sorted(folder.glob("*.yaml")):
                    definition = yaml.safe_load(path.read_text())
                    self.client.create(typed(CustomResourceDefinition, definition))
            for node in self._node_objects():
                self.client.create(typed(Node, node))
        self.plane.launcher.wait(
            f"{self.name}: nodes Ready", self._nodes_ready, timeout_s=NODES_TIMEOUT_S
        )

    def start_agent(self, settings: AgentSettings) -> None:
        """Start the node agent with its settings file."""
        path = settings.write()
        self.plane.launcher.start(
            f"{self.name}-agent",
            [settings.python, "-P", "-m", "lab.agent", path],
            cwd=settings.folder,
        )

    def nodes(self) -> tuple[NodeView, ...]:
        """Read the rack nodes from the API server."""
        with self._api():
            found = list(self.client.list(Node, labels={RACK_LABEL: None}))
        return tuple(
            NodeView(
                name=str(node.metadata.name),
                rack=labels[RACK_LABEL],
                healthy=labels[HEALTH_LABEL] == "healthy",
            )
            for node in found
            if node.metadata and (labels := node.metadata.labels)
        )

    @property
    def reach(self) -> RegionReach:
        """How the region's replicas are asked."""
        return RegionReach(
            client=self.client,
            namespace=self.namespace,
            gateway_url=self.gateway_url,
            roles=self.roles,
            engine_port=self.engine_port,
        )

    def pods(self) -> tuple[PodView, ...]:
        """Read all pods of the region's namespace from the API server."""
        with self._api():
            return self.reach.pods()

    def registered(self) -> Mapping[str, str]:
        """Map the router's worker ids to replicas, for leaders that are registered and ready."""
        with self._api():
            return self.reach.registered()

    def metrics_pages(self) -> tuple[str, ...]:
        """Name the pages where the frontends that are ready tell their counters."""
        with self._api():
            return self.reach.metrics_pages()

    def answering(self, model: str, *, beside: set[str]) -> frozenset[str]:
        """Ask each replica but some for a chat; name those that answer."""
        with self._api():
            return self.reach.answering(model, beside=beside)

    @contextmanager
    def _api(self) -> Iterator[None]:
        """Turn a failed request into an error that names the process behind it."""
        try:
            yield
        except httpx2.HTTPError as error:
            self.plane.launcher.check()  # a dead process is the better explanation
            raise LabError(
                f"{self.name}: the API server {self.plane.url} did not answer: {error}. "
                f"See {self.plane.launcher.log_dir}."
            ) from error

    def _node_objects(self) -> list[dict[str, Any]]:
        racks = [node for rack in self.spec.racks for node in rack_nodes(rack, self.hardware)]
        return racks + cpu_nodes(self.name)

    def _nodes_ready(self) -> bool:
        with self._api():
            nodes = [plain(node) for node in self.client.list(Node)]
        return bool(nodes) and all(_node_ready(node) for node in nodes)


def _node_ready(node: Mapping[str, Any]) -> bool:
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
    taints = node.get("spec", {}).get("taints", ())
    fresh = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)
    return conditions.get("Ready") == "True" and not fresh
