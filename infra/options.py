"""Say how a fleet is rendered, apart from what the fleet file says.

The fleet file is about racks and releases. This is about the place: a cluster
with or without the DRA driver, where weights lie, what the gateway listens on.
Every default is right for a real cluster; the lab passes others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleet.release import Release, Tokenizer
from fleet.spec import GATEWAY_ADMIN_PORT

Layer = Literal["platform", "serving"]

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - inside a pod, whose network is its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The place that is rendered for."""

    # Claims on the rack's ComputeDomain need the DRA driver; without it no pod would start.
    dra: bool = True
    # Only when regions share one cluster: each then needs a namespace of its own.
    namespace: str | None = None
    gateway_listen: str = ANY_ADDRESS
    gateway_port: int | None = None  # None: the fleet file's
    gateway_admin_port: int = GATEWAY_ADMIN_PORT  # on 127.0.0.1 only
    # Region -> host:port in place of the fleet file's: where gateways of this place are reached.
    gateway_addresses: Mapping[str, str] = field(default_factory=dict)
    # Before the folders that the gateway's file names; for a process without a root of its own.
    gateway_root: str = ""
    gateway_image: str = "docker.io/envoyproxy/envoy:distroless-v1.40.0"
    dns_server: str | None = None  # "host:port"; None: the pod's resolver
    tokenizer: Tokenizer | None = None  # None: the release's
    # Only what serves: no policies, weights stage, monitoring, keys or claims, which need other
    # people's controllers, Secrets or volumes. The lab is bare.
    bare: bool = False
    monitoring_namespace: str = "monitoring"  # where Prometheus runs: it may scrape
    # Below it one folder per weights revision, on every node or in the claim.
    weights_dir: str = "/mnt/k3fleet/weights"
    weights_claim: str | None = None
    # Replica name -> release id. Replicas that are not named run the fleet's release.
    assignment: Mapping[str, str] = field(default_factory=dict)
    releases: Mapping[str, Release] = field(default_factory=dict)
    # The release that frontends and gateway follow; None: the fleet's own.
    shared: str | None = None
    serial: int = 0  # of the assignment; grows with each change
