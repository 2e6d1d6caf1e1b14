"""A lab that only has a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.wiring import surroundings
from fleet.load import load_fleet
from lab.rollout import LabRollouts
from lab.state import LabState

DEMO = Path(__file__).parents[2] / "fleets/demo.yaml"


@pytest.fixture
def rollouts(tmp_path: Path) -> LabRollouts:
    """Give a lab that only has a folder."""
    fleet = load_fleet(DEMO)
    state = LabState.model_validate(
        {
            "lab_id": "x",
            "fleet_file": DEMO,
            "started_at": "2026-01-01T00:00:00Z",
            "kept": True,
            "regions": {},
            "namespace": "k3",
            "log_dir": tmp_path,
            "env_file": tmp_path,
            "load_settings": tmp_path,
        }
    )
    around = replace(surroundings(fleet, tmp_path), environ={})
    return LabRollouts(fleet=fleet, state=state, around=around, lab_dir=tmp_path)
