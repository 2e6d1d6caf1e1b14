"""Define the figures that are kept of a region while a rollout is driven, and how they get few.

Pure. A figure is what was counted between two looks, so two of them that follow each other are one
over both spans: what is kept of a rollout of weeks is as large as of one of hours, only coarser.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field, Strict

from fleet.rollout.counters import Counts
from fleet.rollout.record import Moment
from fleet.schema import FileModel, Text

# Of all regions together, about 250 bytes each: two regions are looked at for five hours before
# any of them is joined with its neighbour.
MOST_FIGURES = 8_000
# The file may be spoilt: what nothing can have counted is no figure, and breaks no page.
Replicas = Annotated[int, Strict(), Field(ge=0, le=1_000_000)]
Counted = Annotated[float, Field(ge=-1e18, le=1e18)]


class Figures(FileModel):
    """One region between two looks; None where its frontends did not say."""

    region: Text
    from_s: Moment
    to_s: Moment
    serving: Replicas  # that frontends may choose, the fewest at any look
    updated: Replicas  # of those, the ones of the new release, at the last look
    replicas: Replicas
    requests: Counted | None = None  # that ended, without those that clients spoilt
    errors: Counted | None = None
    prompt_tokens: Counted | None = None
    cached_tokens: Counted | None = None
    answers: Counted | None = None  # that had a first token
    first_token_s: Counted | None = None  # the time to it, of all of them together
    # Answers by the upper edge of the bucket that their time to the first token is in.
    buckets: dict[Counted, Counted] = Field(default_factory=dict)

    @property
    def error_rate(self) -> float | None:
        """Requests that failed, of those that ended."""
        return _share(self.errors, self.requests)

    @property
    def hit(self) -> float | None:
        """Prompt tokens that a cache served, of all."""
        return _share(self.cached_tokens, self.prompt_tokens)

    @property
    def ttft_mean_s(self) -> float | None:
        """Mean time to the first token."""
        return _share(self.first_token_s, self.answers)

    @property
    def ttft_p95_s(self) -> float | None:
        """Upper edge of the bucket that 95 % of the answers are within; None past the last one."""
        if not self.answers or not self.buckets:
            return None
        rank, seen = math.ceil(0.95 * self.answers), 0.0
        for edge in sorted(self.buckets):
            seen += self.buckets[edge]
            if seen >= rank:
                return edge
        return None


def counted(counts: Counts | None) -> dict[str, object]:
    """Give what frontends counted as fields of Figures."""
    if counts is None:
        return {}
    first, below, buckets = counts.first_tokens, 0.0, {}
    for edge in sorted(edge for edge in first.buckets if math.isfinite(edge)):
        if first.buckets[edge] > below:
            buckets[edge] = first.buckets[edge] - below
        below = max(below, first.buckets[edge])
    return {
        "requests": counts.requests,
        "errors": counts.errors,
        "prompt_tokens": counts.tokens.prompt,
        "cached_tokens": counts.tokens.cached,
        "answers": first.answers,
        "first_token_s": round(first.seconds, 6),
        "buckets": buckets,
    }


def thinned(figures: Sequence[Figures], most: int = MOST_FIGURES) -> tuple[Figures, ...]:
    """Join neighbours of each region, two by two, until there are few enough."""
    found = tuple(figures)
    while len(found) > most:
        fewer = _halved(found)
        if len(fewer) == len(found):
            break
        found = fewer
    return found


def _halved(figures: Iterable[Figures]) -> tuple[Figures, ...]:
    """Join the first figure of a region with its second, the third with the fourth."""
    waiting: dict[str, Figures] = {}
    found: list[Figures] = []
    for one in figures:
        before = waiting.pop(one.region, None)
        if before is not None and before.to_s == one.from_s:
            found.append(joined(before, one))
            continue
        found += [before] if before is not None else []  # nobody looked in between
        waiting[one.region] = one
    return tuple(sorted([*found, *waiting.values()], key=lambda one: (one.to_s, one.region)))


def joined(first: Figures, second: Figures) -> Figures:
    """Make one of two figures of a region that follow each other."""
    return Figures(
        region=first.region,
        from_s=first.from_s,
        to_s=second.to_s,
        serving=min(first.serving, second.serving),
        updated=second.updated,
        replicas=second.replicas,
        requests=_sum(first.requests, second.requests),
        errors=_sum(first.errors, second.errors),
        prompt_tokens=_sum(first.prompt_tokens, second.prompt_tokens),
        cached_tokens=_sum(first.cached_tokens, second.cached_tokens),
        answers=_sum(first.answers, second.answers),
        first_token_s=_sum(first.first_token_s, second.first_token_s),
        buckets=_all(first.buckets, second.buckets),
    )


def _all(first: Mapping[float, float], second: Mapping[float, float]) -> dict[float, float]:
    edges = first.keys() | second.keys()
    return {edge: first.get(edge, 0.0) + second.get(edge, 0.0) for edge in sorted(edges)}


def _sum(first: float | None, second: float | None) -> float | None:
    """Add what is known: a look that failed hides nothing of its neighbour."""
    return second if first is None else first if second is None else first + second


def _share(part: float | None, whole: float | None) -> float | None:
    share = part / whole if part is not None and whole else math.nan
    return share if math.isfinite(share) else None
