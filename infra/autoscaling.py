"""Scale a region's frontends with their load.

Their load is CPU: templates, tokenizers and streams. Engines are not scaled, a
rack holds as many as it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# One frontend is a Rust process on 8 cores; above this the p99 of tokenizing long prompts
# starts to wait for a core. Our choice, not measured.
TARGET_CPU_PERCENT = 60
MOST_TIMES = 4  # times the replicas of the fleet file
# The most that Kubernetes takes for the two (autoscaling/v2 API reference).
LONGEST_WINDOW_S = 3600
LONGEST_PERIOD_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendScaling:
    """Bounds and pace of the frontends' autoscaler."""

    min_replicas: int
    max_replicas: int
    cpu_percent: int
    window_s: int  # the load must have been low so long before a frontend goes
    period_s: int  # at most one frontend goes in this time


def frontend_scaling(replicas: int, drain_s: float) -> FrontendScaling:
    """Let frontends go one at a time, each with the whole drain time to end its streams.

    Pods get the drain time as their grace period, so no stream is cut by leaving;
    the pace keeps the number of sessions small that move to another frontend.
    """
    drain = math.ceil(drain_s)
    return FrontendScaling(
        min_replicas=replicas,
        max_replicas=replicas * MOST_TIMES,
        cpu_percent=TARGET_CPU_PERCENT,
        window_s=min(drain, LONGEST_WINDOW_S),
        period_s=min(drain, LONGEST_PERIOD_S),
    )
