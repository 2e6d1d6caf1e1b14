"""Read how a running lab's pods stand."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2
from lightkube import Client, KubeConfig
from lightkube.resources.core_v1 import Pod

from fleet.errors import LabError
from lab.pods import view
from lab.state import RegionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One line of `k3fleet lab status`."""

    region: str
    name: str
    node: str | None
    state: str
    restarts: int


def region_status(name: str, region: RegionState, namespace: str) -> tuple[PodStatus, ...]:
    """List the pods of one region, as its API server shows them."""
    config = KubeConfig.from_file(region.kubeconfig)
    client = Client(config=config, namespace=namespace, trust_env=False)
    try:
        pods = [view(pod) for pod in client.list(Pod)]
    except httpx2.HTTPError as error:
        raise LabError(
            f"{name}: the API server does not answer: {error}. See `k3fleet lab logs`, or end "
            "the lab with `k3fleet lab down`."
        ) from error
    return tuple(
        PodStatus(
            region=name,
            name=pod.name,
            node=pod.node,
            state="Ready" if pod.ready else pod.phase,
            restarts=pod.restarts,
        )
        for pod in sorted(pods, key=lambda pod: pod.name)
    )
