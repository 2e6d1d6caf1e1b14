"""Judge a new release by the traffic that its first replicas get.

Pure. Every gate has one definition, here:

- `max_error_rate`: requests that failed ÷ requests that ended at the region's frontends since the
  phase began, without those that their clients spoilt.
- `max_ttft_ratio`: mean time to the first token of the step's replicas ÷ that of the replicas of
  another release in the same region and window, as their engines measured it (seconds ÷ seconds).
  Broken only where the ratio is over the limit by more than chance (one-sided, 95 %).
- `max_hit_dip`: hit rate = cached ÷ prompt tokens, as engines reported them. Two dips, in points
  of one: of the region, against all that its frontends counted before the phase; and of the
  step's replicas, against those of another release in the same window.
- `hit_recovery`: until so long after the phase began, an empty cache is a good reason for a dip of
  the step's replicas and for a slow first token; each is looked at again in a new window. A dip
  of the whole region has no such reason: the rest of it has its caches. But where sessions change
  over to a set that is kept apart, each of them begins there without one; and new frontends do
  not know where sessions are, until each has come once.

A window is closed as soon as it has enough of everything, and judged as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fleet.rollout.counters import Counts, FirstTokens, PromptTokens, Window
from fleet.rollout.strategy import Gates

# One-sided 95 % of the normal distribution: one healthy step in twenty would be held otherwise.
SIGNIFICANCE = 1.645

# Our own questions are 14,000 tokens to each replica and phase, half of them cached: a region that
# has seen less than a hundred times as many would be compared with them.
LEAST_BASELINE_TOKENS = 1_400_000

Verdict = Literal["held", "broken", "wait", "again"]
"""`wait`: the window needs more; `again`: look once more, in a new window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a window says; `why` has figure, limit and window of each gate."""

    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One gate in one window."""

    text: str
    broken: bool = False
    excused: bool = False  # an empty cache may be the reason


def judge(
    so_far: Counts,
    window: Window,
    baseline: Counts,
    gates: Gates,
    age_s: float,
    *,
    forgot: bool = False,
) -> Judgement:
    """Judge a window.

    `so_far` is of the whole phase, which is `age_s` old; `baseline` is what the frontends had
    counted when it began. `forgot`: the region's frontends are new, and know nothing of caches.
    """
    if hopeless(so_far, gates) or (
        so_far.requests >= gates.min_requests and _rate(so_far) > gates.max_error_rate
    ):
        return Judgement(verdict="broken", why=_errors(so_far, gates))
    if missing := _too_few(window.region if forgot else so_far, window, gates):
        return Judgement(verdict="wait", why=missing)
    found = (*_first_tokens(window, gates), *_hits(window, baseline, gates))
    broken = [item for item in found if item.broken]
    text = f"{_errors(so_far, gates)}; " + "; ".join(item.text for item in found)
    if not broken:
        return Judgement(verdict="held", why=text)
    early = age_s < gates.hit_recovery_s
    if early and all(item.excused for item in broken):
        return Judgement(verdict="again", why="; ".join(item.text for item in broken))
    late = f" {age_s:.0f} s after the phase began" if not early else ""
    return Judgement(verdict="broken", why="; ".join(item.text for item in broken) + late)


def hopeless(seen: Counts, gates: Gates) -> bool:
    """Tell whether the error rate is broken however well all requests to come end."""
    return seen.errors > gates.max_error_rate * max(seen.requests, gates.min_requests)


def _rate(seen: Counts) -> float:
    return seen.errors / seen.requests if seen.requests else 0.0


def _errors(seen: Counts, gates: Gates) -> str:
    return (
        f"max_error_rate: {seen.errors:.0f} errors in {seen.requests:.0f} requests, "
        f"{_rate(seen):.2%}; allowed are {gates.max_error_rate:.2%}"
    )


def _too_few(region: Counts, window: Window, gates: Gates) -> str:
    """Say what a window still needs before it can be judged; `region`: what has to be enough."""
    wanted = gates.min_requests
    if region.requests < wanted:
        return f"{region.requests:.0f} of {wanted} requests that the gates need"
    least = gates.min_replica_requests
    sides = [("the new replicas", window.new.first_tokens)]
    if window.old is not None:
        sides.append(("replicas of another release", window.old.first_tokens))
    return "; ".join(
        f"{first.answers:.0f} of {least} answers of {who} in {window.seconds:.0f} s"
        for who, first in sides
        if first is not None and first.answers < least
    )


def _first_tokens(window: Window, gates: Gates) -> Iterable[Found]:
    name = "max_ttft_ratio"
    if window.old is None:
        yield Found(text=f"{name}: not judged, no other release serves in the region")
        return
    new, old = window.new.first_tokens, window.old.first_tokens
    if new is None or old is None:
        yield Found(text=f"{name}: not measured, the engine publishes no times")
        return
    ratio = new.mean_s / old.mean_s if old.mean_s else 1.0
    over = math.log(ratio / gates.max_ttft_ratio) if ratio else -math.inf
    yield Found(
        text=(
            f"{name}: {ratio:.2f} ({new.mean_s:.3f} s over {new.answers:.0f} answers, others "
            f"{old.mean_s:.3f} s over {old.answers:.0f}, in {window.seconds:.0f} s); "
            f"allowed are {gates.max_ttft_ratio:.2f}"
        ),
        broken=over > SIGNIFICANCE * _log_error(new, old),
        excused=True,
    )


def _log_error(new: FirstTokens, old: FirstTokens) -> float:
    """Give the standard error of the logarithm of a ratio of two means."""
    return math.sqrt(new.spread**2 / new.answers + old.spread**2 / old.answers)


def _hits(window: Window, baseline: Counts, gates: Gates) -> Iterable[Found]:
    name = "max_hit_dip"
    usual = baseline.tokens.hit
    few = baseline.requests < gates.min_requests or baseline.tokens.prompt < LEAST_BASELINE_TOKENS
    if usual is None or few:
        yield Found(text=f"{name} of the region: not judged, too little traffic before the phase")
    elif (hit := window.region.tokens.hit) is None:
        yield Found(text=f"{name} of the region: not measured, no tokens were counted")
    else:
        dip = _dip(f"{name} of the region", usual, hit, window, gates)
        yield Found(text=dip.text, broken=dip.broken, excused=window.moving)
    if window.old is None:
        return
    new, old = _hit(window.new.tokens), _hit(window.old.tokens)
    if new is None or old is None:
        yield Found(text=f"{name} of the replicas: not measured, the engine publishes no tokens")
    else:
        dip = _dip(f"{name} of the replicas", old, new, window, gates)
        yield Found(text=dip.text, broken=dip.broken, excused=True)


def _hit(tokens: PromptTokens | None) -> float | None:
    return None if tokens is None else tokens.hit


def _dip(name: str, usual: float, hit: float, window: Window, gates: Gates) -> Found:
    dip = usual - hit
    return Found(
        text=(
            f"{name}: {dip:+.3f} ({hit:.3f} against {usual:.3f}, in {window.seconds:.0f} s); "
            f"allowed are {gates.max_hit_dip:.3f}"
        ),
        broken=dip > gates.max_hit_dip,
    )
