"""Run one real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler.

KWOK stands for the machines: it keeps the fake nodes Ready. Pods are not KWOK's: the process
kubelet (kubelet.py) runs them.
"""

from __future__ import annotations

import datetime as dt
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from lab.kubeconfig import admin_kubeconfig
from lab.pki import make_pki
from lab.processes import Launcher
from lab.toolchain import Toolchain

ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
API_PORT = 6443
CONTROLLER_MANAGER_PORT = 10257
SCHEDULER_PORT = 10259
KWOK_PORT = 10247
DNS_PORT = 5353
PORTS = (
    ETCD_PORT,
    ETCD_PEER_PORT,
    API_PORT,
    CONTROLLER_MANAGER_PORT,
    SCHEDULER_PORT,
    KWOK_PORT,
    DNS_PORT,
)
START_TIMEOUT_S = 120.0

KWOK_STAGES = Path(__file__).with_name("tools") / "kwok" / "stages.yaml"
# Node CIDRs need a cloud, and no volume is ever attached in a lab.
CONTROLLERS = "*,-node-ipam-controller,-persistentvolume-attach-detach-controller"
API_BUDGET = ("--kube-api-qps", "200", "--kube-api-burst", "400")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The control plane of one region: where it listens and where its files are."""

    address: str
    folder: Path
    toolchain: Toolchain
    launcher: Launcher
    # "1.34": speak as that version does; None: the newest that the binary knows.
    emulated_version: str | None = None

    @property
    def url(self) -> str:
        """URL of the API server."""
        return f"https://{self.address}:{API_PORT}"

    @property
    def kubeconfig(self) -> Path:
        """Path of the administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Folder of the certificates and keys."""
        return self.folder / "pki"

    def start(self, now: dt.datetime) -> None:
        """Start etcd and the API server without waiting for them; `wait_ready` waits."""
        make_pki(self.pki, server_address=self.address, now=now)
        admin_kubeconfig(self.kubeconfig, url=self.url, pki=self.pki)
        self._start_etcd()
        self._start_api_server()

    def wait_api(self) -> None:
        """Wait for the API server; nothing acts on its objects yet."""
        name = f"{self.folder.name}: API server"
        self.launcher.wait(name, self._api_ready, timeout_s=START_TIMEOUT_S)

    def wait_ready(self) -> None:
        """Wait for the API server, then start the controllers, the scheduler and KWOK."""
        self.wait_api()
        self.start_controllers(CONTROLLERS)
        self._start_nodes()
        self.launcher.wait(
            f"{self.folder.name}: default service account",
            lambda: self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None,
            timeout_s=START_TIMEOUT_S,
        )

    def _start_etcd(self) -> None:
        client = f"http://{self.address}:{ETCD_PORT}"
        peer = f"http://{self.address}:{ETCD_PEER_PORT}"
        self._start(
            "etcd",
            self.toolchain.etcd,
            *("--data-dir", self.folder / "etcd", "--name", "lab"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"lab={peer}"),
            # A lab's state is thrown away: durability would only cost time.
            *("--unsafe-no-fsync", "--log-level", "warn"),
        )

    def _start_api_server(self) -> None:
        pki = self.pki
        self._start(
            "kube-apiserver",
            self.toolchain.kube_apiserver,
            *("--etcd-servers", f"http://{self.address}:{ETCD_PORT}"),
            *("--bind-address", self.address, "--secure-port", API_PORT),
            *("--advertise-address", self.address, "--endpoint-reconciler-type", "none"),
            *("--tls-cert-file", pki / "apiserver.crt"),
            *("--tls-private-key-file", pki / "apiserver.key"),
            *("--client-ca-file", pki / "ca.crt"),
            *("--service-account-key-file", pki / "sa.pub"),
            *("--service-account-signing-key-file", pki / "sa.key"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC"),
            *("--enable-priority-and-fairness=false", "--profiling=false"),
            *self._emulation,
        )

    def start_controllers(self, controllers: str) -> None:
        """Start the controller manager with controllers as its flag names them."""
        self._start(
            "kube-controller-manager",
            self.toolchain.kube_controller_manager,
            *self._client(CONTROLLER_MANAGER_PORT),
            *("--service-account-private-key-file", self.pki / "sa.key"),
            *("--root-ca-file", self.pki / "ca.crt", "--controllers", controllers),
        )

    def _start_nodes(self) -> None:
        """Start what places pods, and what stands for the machines."""
        self._start("kube-scheduler", self.toolchain.kube_scheduler, *self._client(SCHEDULER_PORT))
        self._start(
            "kwok",
            self.toolchain.kwok,
            *("--kubeconfig", self.kubeconfig, "--manage-all-nodes=true"),
            *("--node-ip", self.address, "--cidr", "10.244.0.0/16"),
            *("--server-address", f"{self.address}:{KWOK_PORT}"),
            *("--node-lease-duration-seconds", "40", "--config", KWOK_STAGES),
        )

    def _client(self, port: int) -> tuple[str | int | Path, ...]:
        """Give the flags that controllers and scheduler share."""
        api = ("--kubeconfig", self.kubeconfig, "--leader-elect=false", *API_BUDGET)
        return (*api, "--bind-address", self.address, "--secure-port", port, *self._emulation)

    @property
    def _emulation(self) -> tuple[str, ...]:
        version = self.emulated_version
        return () if version is None else ("--emulated-version", f"kube={version}")

    def _start(self, name: str, *argv: str | int | Path) -> None:
        service = f"{self.folder.name}-{name}"
        self.launcher.start(service, [str(part) for part in argv], cwd=self.folder)

    def _api_ready(self) -> bool:
        return self._get("/readyz") == "ok"

    def _get(self, path: str) -> str | None:
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(self.url + path, timeout=5) as reply:
                return str(reply.read().decode())
        except (OSError, urllib.error.URLError):
            return None
