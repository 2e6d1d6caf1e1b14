"""Write the alerts of a region, each with what to do.

Metric names are those of Dynamo 1.6.1 (`dynamo/prometheus_names.py` in its
wheel; a test holds them to it), of kube-state-metrics, and of the node
conditions that NVSentinel sets. No metric says when a capacity block ends; the
fleet file does (`capacity_alerts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.load import Fleet
from fleet.plan import RegionPlan
from infra.alert import Alert
from infra.capacity_alerts import capacity_alerts
from infra.dgd import COMPONENT

SCRAPE_INTERVAL = "15s"
# What a replica's share of its rack is lost for: cold caches after a rollout step fill in minutes.
HIT_RATE_WINDOW = "15m"
HIT_RATE_REFERENCE = "6h"
HIT_RATE_DROP = 0.7  # of the reference
# Below it a rate of hits means nothing.
LEAST_REQUESTS_PER_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Pods that are not scraped: those of which a label or the name matches."""

    source: str  # as Prometheus calls it
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Pods whose metrics are read."""

    name: str
    app: str
    port: str  # its name in the pod
    interval: str = SCRAPE_INTERVAL
    labels: tuple[str, ...] = ()  # of the pod, taken over to its series
    leaders_only: bool = False
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """What Prometheus is told about one region."""

    region: str
    scrapes: tuple[Scrape, ...]
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Selects the series of one region's namespace."""

    namespace: str

    @property
    def frontends(self) -> str:
        """Select whether each frontend was scraped."""
        return f'up{{job="{self.namespace}/frontends"}}'

    def named(self, metric: str, *more: str) -> str:
        """Select a metric in the namespace."""
        matchers = ",".join((f'namespace="{self.namespace}"', *more))
        return f"{metric}{{{matchers}}}"

    def rate(self, metric: str, window: str) -> str:
        """Give the growth per second, over all pods."""
        return f"sum(rate({self.named(metric)}[{window}]))"


def monitoring(fleet: Fleet, region: RegionPlan, namespace: str) -> Monitoring:
    """Compute what is scraped and alerted on in a region.

    House engines that are no Dynamo workers have metrics of their own: of them only
    the racks are watched.
    """
    alerts = [_nvlink(), *capacity_alerts(fleet, region)]
    if not fleet.release.engine.registers:
        return Monitoring(region=region.name, scrapes=(), alerts=tuple(alerts))
    series = Series(namespace=namespace)
    alerts = [_hit_rate(series), _model(series), *alerts]
    if fleet.router.mode == "kv":
        alerts += [_overlap(series), _event_sources(series)]
        if fleet.spec.backend == "lws":  # the operator's pods have names of its own
            alerts.append(_registration(series))
    return Monitoring(region=region.name, scrapes=_scrapes(fleet), alerts=tuple(alerts))


def hit_rate(series: Series, window: str, offset: str = "") -> str:
    """Give the share of prompt tokens that engines had in their cache."""
    cached, asked = (
        f"sum(rate({series.named(metric)}[{window}]{offset}))"
        for metric in (
            "dynamo_frontend_cached_tokens_sum",
            "dynamo_frontend_input_sequence_tokens_sum",
        )
    )
    return f"{cached} / {asked}"


def registered(series: Series) -> str:
    """Count the replicas that each frontend knows."""
    known = series.named("dynamo_component_router_worker_registered")
    return f"count by (pod) (count by (pod, router_worker_id) ({known} == 1))"


def _scrapes(fleet: Fleet) -> tuple[Scrape, ...]:
    ours = ("k3fleet.io/rack", "k3fleet.io/replica", "k3fleet.io/release")
    by_operator = fleet.spec.backend == "dgd"
    return (
        Scrape(
            name="engines",
            app="engine",
            port="system",
            labels=ours,
            leaders_only=not by_operator,
            dropped=_OPERATORS_WORKERS if by_operator else (),
        ),
        Scrape(name="frontends", app="frontend", port="http", labels=("k3fleet.io/set",)),
    )


# The operator gives both ranks one template, so no label of ours tells them apart. What it makes
# does: Grove names the second rank's pods after the clique `<component>-wkr`, LeaderWorkerSet
# numbers them.
_OPERATORS_WORKERS = (
    Dropped(source="__meta_kubernetes_pod_name", pattern=f".+-{COMPONENT}-wkr-[a-z0-9]+"),
    Dropped(
        source="__meta_kubernetes_pod_label_leaderworkerset_sigs_k8s_io_worker_index",
        pattern="[1-9][0-9]*",
    ),
)


def _hit_rate(series: Series) -> Alert:
    usual = hit_rate(series, HIT_RATE_REFERENCE, f" offset {HIT_RATE_WINDOW}")
    asked = series.rate("dynamo_frontend_input_sequence_tokens_count", HIT_RATE_WINDOW)
    return Alert(
        name="K3HitRateDropped",
        expression=f"{hit_rate(series, HIT_RATE_WINDOW)} < {HIT_RATE_DROP} * ({usual}) "
        f"and {asked} > {LEAST_REQUESTS_PER_S}",
        lasts="15m",
        severity="warning",
        summary="Much less of the prompts is found in the cache than before",
        description="Prefill work, and with it the time to first token, rises with every miss. "
        "Pause a rollout that is running. Then look whether clients still send the session "
        "header, whether the router's overlap fell too, and whether replicas were restarted.",
    )


def _model(series: Series) -> Alert:
    ready = series.named("dynamo_frontend_model_ready")
    return Alert(
        name="K3ModelNotReady",
        expression=f"max by (pod) ({ready}) == 0",
        lasts="2m",
        severity="critical",
        summary="Frontend {{ $labels.pod }} cannot route a request to any replica",
        description="The gateway keeps traffic away from it. If all frontends say so, look at "
        "the engine pods; if one does, compare its log with the others' and delete its pod.",
    )


def _overlap(series: Series) -> Alert:
    overlap = "dynamo_component_router_kv_hit_rate"
    routed = series.rate(f"{overlap}_count", "30m")
    return Alert(
        name="K3RouterOverlapZero",
        expression=f"{series.rate(f'{overlap}_sum', '30m')} == 0 "
        f"and {routed} > {LEAST_REQUESTS_PER_S}",
        lasts="10m",
        severity="critical",
        summary="The router finds no prompt in any cache, so it routes by load only",
        description="The usual reason is a block size of the engines' events that is not the "
        "router's: events are dropped with no more than a line in the frontend's log. Compare "
        "dynamo_frontend_model_kv_cache_block_size with the release's block_size, and check "
        "that engines publish events.",
    )


def _event_sources(series: Series) -> Alert:
    missing = series.named("dynamo_component_router_kv_event_source_mismatch_workers")
    return Alert(
        name="K3CacheEventsMissing",
        expression=f"max by (pod) ({missing}) > 0",
        lasts="15m",
        severity="warning",
        summary="Frontend {{ $labels.pod }} gets no cache events from {{ $value }} replica(s)",
        description="Those replicas are routed to as if their caches were empty. Look in their "
        "logs for the KV event publisher; the release must have kv_events: true.",
    )


def _registration(series: Series) -> Alert:
    # Leaders are `<rack>-<slot>-0`; no rack is named, so a new one changes no rule.
    leaders = series.named("kube_pod_status_ready", 'condition="true"', 'pod=~".+-[0-9]+-0"')
    return Alert(
        name="K3ReplicaNotRegistered",
        expression=f"scalar(count({leaders} == 1)) > "
        f"({registered(series)} or on (pod) 0 * {series.frontends}) "
        # While two sets of releases serve, each frontend knows the replicas of its own only.
        f"unless on () count(count by (k3fleet_io_set) ({series.frontends})) > 1",
        lasts="5m",
        severity="warning",
        summary="Frontend {{ $labels.pod }} knows only {{ $value }} replica(s), more are Ready",
        description="A replica that is Ready but not registered takes no request. Compare the "
        "EndpointSlices of Service engines with the DynamoWorkerMetadata objects; a replica "
        "without such an object has to be restarted, a frontend that misses one too.",
    )


def _nvlink() -> Alert:
    return Alert(
        name="K3NvlinkImpaired",
        expression="max by (node) (kube_node_status_condition"
        '{condition="GpuNvlinkWatch",status="true"}) == 1',
        lasts="1m",
        severity="critical",
        summary="NVSentinel reports NVLink faults on node {{ $labels.node }}",
        description="The replica on this node fails or slows down as a whole, and its rack's "
        "domain may follow. Drain the replica, cordon its node, and lower healthy_nodes of the "
        "rack in the fleet file until the node is repaired.",
    )
