"""Compute goodput, throughput per GPU, and percentiles in which failures count.

Good = all service levels met; share = good ÷ (valid + failed). A request that the client cancelled
is neither. Error-adjusted percentiles take a failed request as endless: None = it has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loadtest.results.latencies import is_good
from loadtest.results.quantiles import Spread
from loadtest.results.records import Record
from loadtest.results.result_options import ResultOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Hold goodput; all None without service levels."""

    share: float | None
    requests_per_s: float | None
    tokens_per_s: float | None
    token_share: float | None
    """Output tokens of good requests ÷ those of all successful ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGpu:
    """Hold throughput per GPU that serves, prefill too; None = their number was not told."""

    gpus: int | None
    output_tokens_per_s: float | None
    prompt_tokens_per_s: float | None
    output_tokens_per_s_by_region: Mapping[str, float]


def goodput(records: Sequence[Record], options: ResultOptions, window_s: float) -> Goodput:
    """Compute the goodput of some requests."""
    if not options.slo.given:
        return Goodput(share=None, requests_per_s=None, tokens_per_s=None, token_share=None)
    counted = [record for record in records if not record.cancelled]
    good = [record for record in counted if is_good(record, options.slo)]
    tokens = sum(record.output_tokens or 0 for record in good)
    valid_tokens = sum(record.output_tokens or 0 for record in counted if record.error is None)
    return Goodput(
        share=round(len(good) / len(counted), 6) if counted else None,
        requests_per_s=round(len(good) / window_s, 3),
        tokens_per_s=round(tokens / window_s, 1),
        token_share=round(tokens / valid_tokens, 6) if valid_tokens else None,
    )


def per_gpu(good: Sequence[Record], options: ResultOptions, window_s: float) -> PerGpu:
    """Divide throughput by the GPUs that serve."""
    gpus = options.gpus
    if gpus is None:
        return PerGpu(
            gpus=None,
            output_tokens_per_s=None,
            prompt_tokens_per_s=None,
            output_tokens_per_s_by_region={},
        )
    total = sum(gpus.values())
    output = dict.fromkeys(gpus, 0)
    for record in good:
        if record.region in output:
            output[record.region] += record.output_tokens or 0
    prompt = sum(record.prompt_tokens or 0 for record in good)
    return PerGpu(
        gpus=total,
        output_tokens_per_s=round(sum(output.values()) / window_s / total, 3),
        prompt_tokens_per_s=round(prompt / window_s / total, 3),
        output_tokens_per_s_by_region={
            region: round(tokens / window_s / gpus[region], 3) for region, tokens in output.items()
        },
    )


def adjusted_ms(values_ms: Iterable[float], failures: int) -> Spread:
    """Give nearest-rank percentiles over successes and endless failures."""
    ordered = sorted(values_ms)

    def rank(share: float) -> float | None:
        place = math.ceil(share * (len(ordered) + failures))
        return round(ordered[place - 1], 3) if 0 < place <= len(ordered) else None

    return Spread(p50=rank(0.50), p95=rank(0.95), p99=rank(0.99))
