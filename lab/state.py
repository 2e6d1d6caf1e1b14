"""Remember a running lab in its work folder, so that another command can use or end it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from fleet.errors import LabError
from lab.processes import marked

STATE_FILE = "lab.json"


class RegionState(BaseModel):
    """Where one region of a running lab is reached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: Path
    gateway_url: str
    serving_stack: str
    stack_config: Path


class LabState(BaseModel):
    """A lab that was started in this work folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lab_id: str
    fleet_file: Path
    started_at: datetime
    kept: bool
    regions: dict[str, RegionState]
    namespace: str
    log_dir: Path
    env_file: Path  # shell file that puts the tools on PATH and points pulumi at the lab's state
    load_settings: Path  # for `locust --settings`

    @property
    def alive(self) -> bool:
        """Whether any process of the lab still runs."""
        return next(marked(self.lab_id), None) is not None


def write_state(folder: Path, state: LabState) -> None:
    """Write the state so that a reader sees the old or the new one, never half of it."""
    draft = folder / f".{STATE_FILE}"
    draft.write_text(json.dumps(state.model_dump(mode="json"), indent=1))
    draft.replace(folder / STATE_FILE)


def read_state(folder: Path) -> LabState | None:
    """Read the state of the work folder's lab; nothing when there is none."""
    path = folder / STATE_FILE
    try:
        return LabState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as error:
        raise LabError(
            f"{path}: is not a lab's state. Remove the file; processes of an old lab, if any, "
            "carry K3FLEET_LAB_ID in their environment."
        ) from error


def lab_is_up(folder: Path) -> bool:
    """Say whether a lab runs that was started in this work folder."""
    state = read_state(folder)
    return state is not None and state.alive


def running_state(folder: Path, fleet_file: Path) -> LabState:
    """Read the state of a lab that is up; raise LabError when none is."""
    state = read_state(folder)
    if state is None or not state.alive:
        raise LabError(f"{folder}: no lab is up. Start it: k3fleet lab up {fleet_file}")
    return state


def forget_state(folder: Path) -> None:
    """Remove the state of a lab that has ended."""
    (folder / STATE_FILE).unlink(missing_ok=True)
