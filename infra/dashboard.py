"""Draw the Grafana dashboard of a region."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from infra.monitoring import Series, hit_rate, registered

_WIDTH, _HEIGHT = 12, 8  # of a panel; Grafana's grid is 24 wide
_SCHEMA = 39  # of the dashboard model, Grafana 11
_WINDOW = "$__rate_interval"
_UID_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One graph; legends and expressions by pairs."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


def dashboard_json(fleet: str, region: str, namespace: str) -> str:
    """Write the dashboard as Grafana imports it."""
    digest = hashlib.sha256(f"{fleet}/{region}".encode()).hexdigest()
    panels = _panels(Series(namespace=namespace))
    document = {
        "uid": f"k3fleet-{digest}"[:_UID_MAX],
        "title": f"k3fleet: {fleet}, {region}",
        "tags": ["k3fleet"],
        "schemaVersion": _SCHEMA,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(index, panel) for index, panel in enumerate(panels)],
    }
    return json.dumps(document, indent=1) + "\n"


def _panels(series: Series) -> tuple[Panel, ...]:
    return (*_served(series), *_routed(series), *_waiting(series))


def _served(series: Series) -> tuple[Panel, ...]:
    """Draw what clients notice."""
    requests = series.named("dynamo_frontend_requests_total")
    return (
        Panel(
            title="Requests",
            unit="reqps",
            lines=(("{{status}}", f"sum by (status) (rate({requests}[{_WINDOW}]))"),),
        ),
        Panel(
            title="Output",
            unit="short",
            lines=(("tokens/s", series.rate("dynamo_frontend_output_tokens_total", _WINDOW)),),
        ),
        Panel(
            title="Time to first token",
            unit="s",
            lines=_quantiles(series, "dynamo_frontend_time_to_first_token_seconds"),
        ),
        Panel(
            title="Time between tokens",
            unit="s",
            lines=_quantiles(series, "dynamo_frontend_inter_token_latency_seconds"),
        ),
    )


def _routed(series: Series) -> tuple[Panel, ...]:
    """Draw what the router knows and what came of it."""
    overlap = "dynamo_component_router_kv_hit_rate"
    found, routed = (series.rate(f"{overlap}_{part}", _WINDOW) for part in ("sum", "count"))
    return (
        Panel(
            title="Share of prompt tokens in the cache",
            unit="percentunit",
            lines=(
                ("found by engines", hit_rate(series, _WINDOW)),
                ("expected by the router", f"{found} / {routed}"),
            ),
        ),
        Panel(
            title="Replicas known to each frontend",
            unit="short",
            lines=(("{{pod}}", registered(series)),),
        ),
    )


def _waiting(series: Series) -> tuple[Panel, ...]:
    """Draw what is under way."""
    return (
        Panel(
            title="Requests in flight",
            unit="short",
            lines=(
                ("active", f"sum({series.named('dynamo_frontend_active_requests')})"),
                ("no first token yet", f"sum({series.named('dynamo_frontend_queued_requests')})"),
            ),
        ),
        Panel(
            title="Requests moved to another replica",
            unit="reqps",
            lines=(("moved/s", series.rate("dynamo_frontend_model_migration_total", _WINDOW)),),
        ),
    )


def _quantiles(series: Series, metric: str) -> tuple[tuple[str, str], ...]:
    buckets = f"sum by (le) (rate({series.named(f'{metric}_bucket')}[{_WINDOW}]))"
    return tuple(
        (f"p{round(share * 100)}", f"histogram_quantile({share}, {buckets})")
        for share in (0.5, 0.95)
    )


def _panel(index: int, panel: Panel) -> dict[str, object]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {
            "x": index % 2 * _WIDTH,
            "y": index // 2 * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": source,
                "expr": expression,
                "legendFormat": legend,
            }
            for place, (legend, expression) in enumerate(panel.lines)
        ],
    }
