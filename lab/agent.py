"""The node agent of one region: process kubelet, LeaderWorkerSet double and cluster DNS.

Run as `python -m lab.agent SETTINGS.json`; ends its pods' processes on SIGTERM or SIGINT.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from lightkube import Client, KubeConfig
from lightkube.resources.core_v1 import ServiceAccountToken

from lab.agent_settings import AgentSettings
from lab.api import typed
from lab.control_plane import DNS_PORT
from lab.dns import ClusterDns
from lab.events import EventLog
from lab.kubeconfig import write_kubeconfig
from lab.kubelet import ProcessKubelet
from lab.lws_double import LwsDouble
from lab.mounts import Mounts
from lab.node_context import NodeContext
from lab.pods import PodStore, PodView
from lab.processes import Launcher

TOKEN_LIFETIME_S = 24 * 3600


class Accounts:
    """Writes one kubeconfig per service account, with a real token of the lab's API server."""

    def __init__(self, client: Client, settings: AgentSettings) -> None:
        self._client = client
        self._settings = settings
        self._lock = threading.Lock()
        self._files: dict[str, Path] = {}

    def kubeconfig_for(self, pod: PodView) -> Path:
        """Return the kubeconfig of a pod's service account, made when first asked for."""
        account = str(pod.spec.get("serviceAccountName", "default"))
        with self._lock:
            if account not in self._files:
                self._files[account] = self._write(account, pod.namespace)
            return self._files[account]

    def _write(self, account: str, namespace: str) -> Path:
        request = typed(
            ServiceAccountToken, {"metadata": {}, "spec": {"expirationSeconds": TOKEN_LIFETIME_S}}
        )
        granted = self._client.create(request, account, namespace=namespace)
        token = (granted.status.token if granted.status else None) or ""
        path = self._settings.folder / f"{account}.kubeconfig"
        write_kubeconfig(path, self._settings.kubeconfig, token=token, namespace=namespace)
        return path


def run(settings: AgentSettings, stop: threading.Event) -> None:
    """Run the agent until told to stop, then end all its processes."""
    config = KubeConfig.from_file(settings.kubeconfig)
    client = Client(config=config, namespace=settings.namespace, trust_env=False)
    store = PodStore(client, settings.namespace)
    mounts = Mounts(client, settings.namespace)
    launcher = Launcher(
        lab_id=settings.lab_id, log_dir=settings.folder / "logs", environ=dict(os.environ)
    )
    kubelet = ProcessKubelet(
        NodeContext(
            settings=settings,
            client=client,
            store=store,
            mounts=mounts,
            launcher=launcher,
            events=EventLog(settings.events_file, settings.region, time.time),
            kubeconfig_for=Accounts(client, settings).kubeconfig_for,
            stop=stop,
        )
    )
    double = LwsDouble(client, settings.namespace, store)
    dns = ClusterDns(client, settings.namespace, store)
    config_maps, secrets = partial(mounts.follow, "ConfigMap"), partial(mounts.follow, "Secret")
    for target in (store.follow, config_maps, secrets, double.follow, double.run):
        threading.Thread(target=target, args=(stop,), daemon=True).start()
    dns.serve(settings.network.control_plane, DNS_PORT, stop)
    launcher.stop()
    kubelet.wait()


def main() -> None:
    """Read the settings, run, and leave without waiting for idle watches."""
    settings = AgentSettings.read(Path(sys.argv[1]))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run(settings, stop)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
