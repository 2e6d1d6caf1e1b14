"""Compute the numbers of a region's Envoy gateway."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import Release
from fleet.traffic_shift import TOTAL_WEIGHT
from infra import frontend
from infra.options import Options
from infra.secret_references import GATEWAY_KEYS_KEY

HEALTH_PATH = "/healthz"
# A prompt of a million tokens is about 4 MB of JSON: twice that, so that it can be sent again.
BUFFER_BYTES = 8 * 1024 * 1024
# Streams are few and long: 9 replicas x 256 sequences x 20 racks = 46,080 at once.
MAX_CONNECTIONS = 50_000
# What a frontend says before it took the request: not ready, or overloaded.
RETRY_STATUSES = (503, 529)
MAX_KEYS = 100_000  # that are counted at once; of more, the one not seen for longest starts anew
# CPUs of a gateway, and so its threads: left alone Envoy starts one for each CPU of the node.
CPUS = 4
DNS_REFRESH = "2s"
HEALTH_INTERVAL = "2s"
# Which part of the sessions goes to other regions, and which to each set of releases: a ConfigMap
# that `k3fleet traffic` and rollouts write, with the weights of Envoy's clusters as settings of its
# runtime. A session's hash decides, so that it stays where it is.
TRAFFIC_MAP = "gateway-traffic"
TRAFFIC_MOUNT = "/etc/k3fleet/traffic"
SESSIONS_KEY = "sessions"  # of clients: elsewhere, or to a set
SHARES_KEY = "shares"  # of what stays in the region: to a set
ELSEWHERE = "elsewhere"
# Clusters and routes, which Envoy reads again when they change: sets come and go without a restart.
SETS_MAP = "gateway-sets"
SETS_MOUNT = "/etc/k3fleet/sets"
SETS_CLUSTERS = "clusters.yaml"
SETS_ROUTES = "routes.yaml"
# Annotation of that ConfigMap: the clusters that get sessions. The first gets those of which
# nobody has said where they go.
SETS_ANNOTATION = "k3fleet.io/clusters"
# All frontends of the region, of whatever set; its engines, where there are no frontends.
ALL = "frontends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayKeys:
    """The Secret that says who may use the gateway; Envoy sees its file change."""

    secret: str
    mount: str = "/etc/k3fleet/gateway-keys"
    file: str = GATEWAY_KEYS_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The gateways of other regions, to which a part of the sessions can be sent."""

    peers: tuple[Address, ...]
    region: str  # that sends: what comes from another region stays where it came


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCluster:
    """The frontends of one set, as Envoy's cluster."""

    name: str  # that gets sessions
    own: str  # its frontends; while none of them is well, those of all sets answer
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Where Envoy's runtime finds the weights, and which ones."""

    config_map: str = TRAFFIC_MAP
    mount: str = TRAFFIC_MOUNT
    sessions: str = SESSIONS_KEY
    shares: str = SHARES_KEY
    total: int = TOTAL_WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """What gets sessions of the region: the ConfigMap of it, and the clusters, in their order.

    The order is that of their names, whichever is newer: with two, what goes elsewhere lies
    between them, so it takes from both, and no session changes its set by it.
    """

    clusters: tuple[SetCluster, ...]  # none: the engines are asked straight
    order: tuple[str, ...]
    default: str
    config_map: str = SETS_MAP
    mount: str = SETS_MOUNT
    clusters_file: str = SETS_CLUSTERS
    routes_file: str = SETS_ROUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayValues:
    """The gateway of a region."""

    replicas: int
    image: str
    listen: str
    port: int
    admin_port: int
    dns_server: Address | None
    frontend_host: str
    frontend_port: int
    model_name_hex: str  # what /v1/models must contain; Envoy wants the bytes as hex
    grace_s: int
    pre_stop_s: int
    session_header: str
    idle_timeout: str
    retries: int
    keys: GatewayKeys | None  # None: everybody may
    max_request_bytes: int | None
    requests_per_minute: int | None
    sets: Sets
    elsewhere: Elsewhere | None = None
    traffic: Traffic = Traffic()
    root: str = ""  # before the folders that the file names, as this process sees them
    cpus: int = CPUS
    health_path: str = HEALTH_PATH
    buffer_bytes: int = BUFFER_BYTES
    max_connections: int = MAX_CONNECTIONS
    max_keys: int = MAX_KEYS
    retry_statuses: tuple[int, ...] = RETRY_STATUSES
    dns_refresh: str = DNS_REFRESH
    health_interval: str = HEALTH_INTERVAL


def gateway_values(
    fleet: Fleet, region: str, namespace: str, sets: Sequence[str], options: Options
) -> GatewayValues:
    """Compute the gateway from the fleet file, the place, and the sets that replicas run.

    `sets`: that of the most replicas first.
    """
    drain_s = math.ceil(fleet.release.drain_s)
    edge = fleet.release.edge
    service, port = _upstream(fleet.release)
    return GatewayValues(
        replicas=fleet.spec.gateway.replicas,
        image=options.gateway_image,
        listen=options.gateway_listen,
        port=options.gateway_port or fleet.spec.gateway.port,
        admin_port=options.gateway_admin_port,
        dns_server=_address(options.dns_server),
        frontend_host=f"{service}.{namespace}.svc.cluster.local",
        frontend_port=port,
        model_name_hex=f'"{fleet.model.repo}"'.encode().hex(),
        grace_s=drain_s + 10,
        pre_stop_s=drain_s,
        session_header=edge.session_header,
        idle_timeout=f"{math.ceil(edge.idle_timeout_s)}s",
        retries=edge.retries,
        keys=_keys(fleet, options),
        max_request_bytes=edge.max_request_bytes,
        requests_per_minute=None if options.bare else edge.requests_per_minute,
        sets=_sets(sets, namespace),
        elsewhere=_elsewhere(fleet, region, options),
        root=options.gateway_root,
    )


def cluster_of(set_: str) -> str:
    """Name the cluster of Envoy that gets the sessions of a set."""
    return f"set-{set_}"


def _sets(sets: Sequence[str], namespace: str) -> Sets:
    clusters = tuple(
        SetCluster(
            name=cluster_of(name),
            own=f"{ALL}-{name}",
            host=f"{frontend.frontend_name(name)}.{namespace}.svc.cluster.local",
        )
        for name in sorted(sets)
    )
    order = tuple(item.name for item in clusters) or (ALL,)
    return Sets(
        clusters=clusters,
        order=order,
        default=cluster_of(sets[0]) if sets else ALL,
    )


def _elsewhere(fleet: Fleet, region: str, options: Options) -> Elsewhere | None:
    """Name the gateways of all other regions that say where they are."""
    said = {spec.name: spec.gateway_address for spec in fleet.spec.regions if spec.gateway_address}
    here = {name: options.gateway_addresses.get(name, text) for name, text in said.items()}
    peers = tuple(
        address for name, text in here.items() if name != region and (address := _address(text))
    )
    return Elsewhere(peers=peers, region=region) if peers else None


def _keys(fleet: Fleet, options: Options) -> GatewayKeys | None:
    """Refer to the Secret of the keys; requests can only be counted by key."""
    secret = fleet.spec.secrets.gateway_keys
    if options.bare:
        return None
    if secret is None and fleet.release.edge.requests_per_minute is not None:
        raise ConfigError(
            f"{fleet.path}: secrets.gateway_keys: not set, but release {fleet.release.name} has "
            "edge.requests_per_minute, which counts the requests of each key. "
            "Name a Secret, or remove the limit."
        )
    return None if secret is None else GatewayKeys(secret=secret)


def _upstream(release: Release) -> tuple[str, int]:
    """Name the Service and port that requests go to.

    A house engine that no frontend can find is asked straight: the ring then
    keeps a session on one replica, which is all the cache routing that it gets.
    """
    port = release.engine.direct_port
    return (frontend.SERVICE, frontend.PORT) if port is None else ("engines", port)


def _address(text: str | None) -> Address | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"dns_server: {text!r} is not host:port. Write for example 10.0.0.2:53.")
    return Address(host=host, port=int(port))
