"""Read what engines and frontends count about themselves, in Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from fleet.rollout.counters import Counts, FirstTokens, PromptTokens, ReplicaCounts
from infra.rollout.checks import CLIENTS_OWN
from infra.rollout.endpoint import Endpoint

PAGE = "/metrics"
# Dynamo 1.6.1, lib/runtime/src/metrics/prometheus_names.rs.
INFLIGHT = "dynamo_component_inflight_requests"
REQUESTS = "dynamo_frontend_requests_total"
# Histograms over requests, of a whole frontend: it publishes no tokens, and only the last time to
# a first token, for each of its workers (measured).
PROMPT = "dynamo_frontend_input_sequence_tokens_sum"
CACHED = "dynamo_frontend_cached_tokens_sum"
ANSWERED = "dynamo_frontend_time_to_first_token_seconds"
# What engines publish on the page of their worker. Dynamo passes it through, and adds the prefix of
# TensorRT-LLM's; that one publishes no tokens, and the mocker none either (measured).
FIRST_TOKENS = (
    "vllm:time_to_first_token_seconds",
    "sglang:time_to_first_token_seconds",
    "trtllm_time_to_first_token_seconds",
)
# Of prompts, and of what a cache served of them: vLLM docs/design/metrics.md (what a connector
# brought counts apart), SGLang docs/references/production_metrics.md.
TOKENS = (
    (
        "vllm:prefix_cache_queries_total",
        ("vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total"),
    ),
    ("sglang:prompt_tokens_total", ("sglang:cached_tokens_total",)),
)

_MOST = 1e15  # of anything that is counted here, in a life
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


def inflight(at: Endpoint) -> int | None:
    """Count the requests that an engine works on; None when it does not say."""
    text = at.page(PAGE)
    values = [value for labels, value in samples(text, INFLIGHT) if _serving(labels)]
    return int(sum(values)) if values else None


def counts(at: Endpoint) -> Counts | None:
    """Read how many requests a frontend has ended, and how badly; None when it does not say."""
    text = at.page(PAGE)
    return None if text is None else counts_of(text)


def replica_counts(at: Endpoint) -> ReplicaCounts | None:
    """Read what the engine behind a leader has counted; None when it does not answer."""
    text = at.page(PAGE)
    return None if text is None else replica_counts_of(text)


def replica_counts_of(text: str) -> ReplicaCounts:
    """Find the engine's own names on the page of its worker."""
    first = next((found for name in FIRST_TOKENS if (found := _first_tokens(text, name))), None)
    tokens = next(
        (
            PromptTokens(prompt=prompt, cached=sum(_sum(text, name) or 0.0 for name in cached))
            for name, cached in TOKENS
            if (prompt := _sum(text, name)) is not None
        ),
        None,
    )
    return ReplicaCounts(first_tokens=first, tokens=tokens)


def _first_tokens(text: str, name: str) -> FirstTokens | None:
    answers, seconds = _sum(text, f"{name}_count"), _sum(text, f"{name}_sum")
    if answers is None or seconds is None:
        return None
    buckets: dict[float, float] = {}
    for labels, value in samples(text, f"{name}_bucket"):
        with suppress(KeyError, ValueError):  # without an edge it says nothing
            edge = float(labels["le"])
            buckets[edge] = buckets.get(edge, 0.0) + value
    return FirstTokens(answers=answers, seconds=seconds, buckets=buckets)


def _sum(text: str, name: str) -> float | None:
    values = [value for _, value in samples(text, name)]
    return sum(values) if values else None


def counts_of(text: str) -> Counts:
    """Add up a frontend's requests by how they ended; those of clients' own fault do not count."""
    requests = errors = 0.0
    for labels, value in samples(text, REQUESTS):
        failed = labels.get("status") == "error"
        if failed and labels.get("error_type") in CLIENTS_OWN:
            continue
        requests += value
        errors += value if failed else 0.0
    return Counts(
        requests=requests,
        errors=errors,
        tokens=PromptTokens(prompt=_sum(text, PROMPT) or 0.0, cached=_sum(text, CACHED) or 0.0),
        first_tokens=_first_tokens(text, ANSWERED) or FirstTokens(),
    )


def samples(text: str | None, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Give labels and value of each sample of a metric; what is no number was not counted."""
    for line in (text or "").splitlines():
        match = _SAMPLE.fullmatch(line.strip())
        if match and match.group(1) == name:
            with suppress(ValueError):
                if abs(value := float(match.group(3))) <= _MOST:  # NaN is not
                    yield dict(_LABEL.findall(match.group(2) or "")), value


def _serving(labels: Mapping[str, str]) -> bool:
    return labels.get("dynamo_endpoint") == "generate"
