"""Look at the region of a running lab: its objects, its pods, and the processes behind them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
from cli_runs import Here

from fleet.load import Fleet, load_fleet
from infra.options import Options
from infra.render import KubeObject, render_region
from lab.containers import ROOT
from lab.control_plane import DNS_PORT
from lab.network import loopback_address

Object = dict[str, Any]


@dataclass(frozen=True)
class Region:
    """The one region of a lab that `lab up -o json` has told about."""

    here: Here
    told: Mapping[str, Any]

    @property
    def name(self) -> str:
        [name] = self.told["regions"]
        return str(name)

    @property
    def gateway_url(self) -> str:
        return str(self.told["regions"][self.name]["gateway_url"])

    @cached_property
    def fleet(self) -> Fleet:
        return load_fleet(Path(self.told["fleet_file"]))

    @cached_property
    def rendered(self) -> list[KubeObject]:
        """What the charts make of the fleet file, at the addresses of this lab."""
        gateway = self.gateway_url.removeprefix("http://").rpartition(":")[0]
        control_plane = gateway.rpartition(".")[0] + ".1"
        place = Options(
            dra=False,
            bare=True,
            gateway_listen=gateway,
            gateway_admin_port=0,
            gateway_root=ROOT,
            dns_server=f"{control_plane}:{DNS_PORT}",
        )
        return render_region(self.fleet, self.name, "serving", place)

    def kubectl(self, kinds: str) -> list[Object]:
        """Read objects of the region's namespace from its API server."""
        config = self.told["regions"][self.name]["kubeconfig"]
        script = f'. "{self.told["env_file"]}" && kubectl --kubeconfig "{config}" -n k3 get {kinds}'
        done = subprocess.run(
            ["sh", "-c", f"{script} -o json"], capture_output=True, text=True, check=True
        )
        items: list[Object] = json.loads(done.stdout)["items"]
        return items

    def pods(self, app: str) -> list[Object]:
        return [
            pod
            for pod in self.kubectl("pods")
            if pod["metadata"]["labels"]["app.kubernetes.io/name"] == app
        ]

    def deployment(self, app: str) -> Object:
        """Find the rendered Deployment of an app; frontends' names have their set's."""
        own = {"app.kubernetes.io/name": app}.items()
        [found] = [
            item
            for item in self.rendered
            if item["kind"] == "Deployment" and own <= item["metadata"]["labels"].items()
        ]
        return dict(found)

    def process(self, pod: Object) -> psutil.Process:
        """Find the process of a pod: the one that works in its folder."""
        meta = pod["metadata"]
        folder = f"/pods/{meta['name']}-{meta['uid'][:8]}"
        [found] = [p for p in self.here.processes() if p.cwd().endswith(folder)]
        return found


def address(pod: Object) -> str:
    """Give the address at which a pod's process listens."""
    return loopback_address(pod["status"]["podIP"])


def named(objects: Sequence[KubeObject], kind: str, name: str) -> Object:
    """Find an object by kind and name."""
    [found] = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return dict(found)
