"""Take the latencies of one request, by the definitions that all figures share.

Sources of the definitions are in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.results.records import Record
from loadtest.results.result_options import ServiceLevels

METRICS = ("ttft", "ttft_due", "ttfo", "tpot", "chunk_gap", "e2e")


def tpot_ms(record: Record) -> float | None:
    """Give the time per output token after the first chunk, which is taken as one token."""
    if record.ttft_s is None or not record.output_tokens or record.output_tokens < 2:
        return None
    return (record.e2e_s - record.ttft_s) * 1000 / (record.output_tokens - 1)


def ttft_due_ms(record: Record) -> float | None:
    """Give TTFT from when the request was due; None in closed loop, where nothing is due."""
    if record.ttft_s is None or record.due_s is None:
        return None
    return (record.sent_s - record.due_s + record.ttft_s) * 1000


def latencies_ms(record: Record) -> Iterator[tuple[str, float]]:
    """Give what is known of a request's latencies, all but chunk gaps.

    One that the client cancelled has a TTFT, but no end of its own.
    """
    ended = not record.cancelled
    known = (
        ("ttft", None if record.ttft_s is None else record.ttft_s * 1000),
        ("ttft_due", ttft_due_ms(record)),
        ("ttfo", None if record.ttfo_s is None else record.ttfo_s * 1000),
        ("tpot", tpot_ms(record) if ended else None),
        ("e2e", record.e2e_s * 1000 if ended else None),
    )
    for metric, value in known:
        if value is not None:
            yield metric, value


def is_good(record: Record, levels: ServiceLevels) -> bool:
    """Tell whether a request was answered within all service levels.

    A limit on what a request does not have is not broken: an answer of one token has no TPOT.
    """
    if record.error is not None:
        return False
    found = dict(latencies_ms(record))
    limits = (
        ("ttft", levels.ttft_ms),
        ("ttfo", levels.ttfo_ms),
        ("tpot", levels.tpot_ms),
        ("e2e", levels.e2e_ms),
    )
    return all(limit is None or found.get(metric, 0.0) <= limit for metric, limit in limits)
