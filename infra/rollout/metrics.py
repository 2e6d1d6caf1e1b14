"""Read what engines and frontends count about themselves, in Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import httpx2

from infra.rollout.checks import CLIENTS_OWN, Counts

TIMEOUT_S = 5.0
# Dynamo 1.6.1, lib/runtime/src/metrics/prometheus_names.rs.
INFLIGHT = "dynamo_component_inflight_requests"
REQUESTS = "dynamo_frontend_requests_total"

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


def inflight(address: str, port: int) -> int | None:
    """Count the requests that an engine works on; None when it does not say."""
    text = _read(f"http://{address}:{port}/metrics")
    values = [value for labels, value in samples(text, INFLIGHT) if _serving(labels)]
    return int(sum(values)) if values else None


def counts(address: str, port: int) -> Counts | None:
    """Read how many requests a frontend has ended, and how badly; None when it does not say."""
    text = _read(f"http://{address}:{port}/metrics")
    return None if text is None else counts_of(text)


def counts_of(text: str) -> Counts:
    """Add up a frontend's requests by how they ended; those of clients' own fault do not count."""
    requests = errors = 0.0
    for labels, value in samples(text, REQUESTS):
        failed = labels.get("status") == "error"
        if failed and labels.get("error_type") in CLIENTS_OWN:
            continue
        requests += value
        errors += value if failed else 0.0
    return Counts(requests=requests, errors=errors)


def samples(text: str | None, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Give labels and value of each sample of a metric."""
    for line in (text or "").splitlines():
        match = _SAMPLE.fullmatch(line.strip())
        if match and match.group(1) == name:
            yield dict(_LABEL.findall(match.group(2) or "")), float(match.group(3))


def _serving(labels: Mapping[str, str]) -> bool:
    return labels.get("dynamo_endpoint") == "generate"


def _read(url: str) -> str | None:
    try:
        reply = httpx2.get(url, timeout=TIMEOUT_S, trust_env=False)
    except httpx2.HTTPError:
        return None
    return reply.text if reply.status_code == httpx2.codes.OK else None
