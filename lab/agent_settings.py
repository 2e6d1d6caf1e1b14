"""What the node agent of one region is told, as a file: it holds no secret."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fleet.release import Role
from lab.engines import EngineShape
from lab.events import EVENTS_FILE
from lab.network import RegionNetwork


class AgentSettings(BaseModel):
    """Settings of one region's node agent (`python -m lab.agent FILE`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lab_id: str
    region: str
    lab_number: int
    region_index: int
    namespace: str
    kubeconfig: Path
    folder: Path
    python: Path
    envoy: Path
    model_dir: Path
    model_name: str
    speed_table: Path
    engines: dict[str, dict[Role, EngineShape]]  # by release id
    roles: dict[str, Role]  # by replica
    house_engines: frozenset[str] = frozenset()  # ids of releases whose own command is run

    @property
    def network(self) -> RegionNetwork:
        """The region's loopback addresses."""
        return RegionNetwork(lab=self.lab_number, index=self.region_index)

    @property
    def events_file(self) -> Path:
        """Where the agent appends what happens to pods, one JSON object a line."""
        return self.folder / EVENTS_FILE
