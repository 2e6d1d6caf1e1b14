"""Versions that are asked for in two places are the same there."""

from __future__ import annotations

from fleet.racks.floors import load_floors
from infra.lint.rules.rollout import _FLOORS


def test_preflight_and_linter_ask_for_the_same_dra_driver() -> None:
    """K019 looks at what is rendered, preflight at what runs."""
    floor, _ = _FLOORS["dra-driver-nvidia-gpu"]
    assert load_floors().dra_driver.at_least == ".".join(map(str, floor))
