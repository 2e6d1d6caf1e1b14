"""Take the limits of a search from the gates that the run is judged by: one place for both."""

from __future__ import annotations

from typing import Any

from fleet.errors import ConfigError
from loadtest.judge.gates import GateSet

_BY_METRIC = {
    ("hit.ratio", ">="): "hit_ratio",
    ("error_rate", "<="): "error_rate",
    ("ttft_ms.p95", "<="): "ttft_p95_ms",
    ("tpot_ms.p95", "<="): "tpot_p95_ms",
}


def search_limits(gates: GateSet) -> dict[str, Any]:
    """Give fields of SearchOptions; raises ConfigError where the gates limit nothing it knows."""
    levels = gates.levels
    limits = {"ttft_p95_ms": levels.ttft_ms, "tpot_p95_ms": levels.tpot_ms} if levels else {}
    for gate in gates.gates:
        if name := _BY_METRIC.get((gate.metric, gate.op)):
            limits[name] = gate.limit
    found = {name: limit for name, limit in limits.items() if limit is not None}
    if not found.keys() - {"error_rate"}:
        raise ConfigError(
            "--search: the gates limit neither hit.ratio nor latencies, so every load is inside. "
            "Give other --gates, or `search` in the file of --settings."
        )
    return found
