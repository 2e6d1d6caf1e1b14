"""Claims about the limits of a search that come from gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigError
from loadtest.judge.gates import NAMED_GATES, load_gate_set
from loadtest.judge.search_limits import search_limits
from loadtest.play.search import SearchOptions

ERRORS_ONLY = """
gates: [{id: e, title: E, kind: slo, metric: error_rate, op: "<=", limit: 0.1, why: w}]
"""


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("rehearsal", {"hit_ratio": 0.95, "error_rate": 0.005}),
        ("launch", {"ttft_p95_ms": 10_000, "tpot_p95_ms": 50}),
    ],
)
def test_a_search_keeps_what_the_gates_keep(name: str, limits: dict[str, float]) -> None:
    """Else a run at the limit that was found could be a no-go."""
    found = search_limits(load_gate_set(NAMED_GATES[name]))
    assert found.items() >= limits.items()
    SearchOptions.model_validate(found)


def test_gates_that_no_load_breaks_are_no_limits(tmp_path: Path) -> None:
    """The search would go on for ever, or until something is on fire."""
    path = tmp_path / "gates.yaml"
    path.write_text(ERRORS_ONLY, encoding="utf-8")
    with pytest.raises(ConfigError, match="--search"):
        search_limits(load_gate_set(path))
