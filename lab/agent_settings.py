"""What the node agent of one region is told, as a file: it holds no secret."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from fleet.release import Role
from lab.engines import EngineShape
from lab.events import EVENTS_FILE
from lab.faults import Fault
from lab.network import RegionNetwork

SETTINGS_FILE = "agent.json"


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
    tables: Path  # folder with the mocked engines' speed and answers
    token_scale: int  # by which prompts and caches are divided
    engines: dict[str, dict[Role, EngineShape]]  # by release id
    roles: dict[str, Role]  # by replica
    house_engines: frozenset[str] = frozenset()  # ids of releases whose own command is run

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the settings of an agent that runs."""
        return cls.model_validate_json(path.read_bytes())

    def write(self) -> Path:
        """Write the settings where their agent looks for releases that it does not know yet."""
        path = self.folder / SETTINGS_FILE
        draft = path.with_suffix(".draft")
        draft.write_text(self.model_dump_json(indent=1))
        return draft.replace(path)

    def knowing(self, release: str) -> Self:
        """Give settings that know a release, if those on disk do: a rollout adds new ones."""
        path = self.folder / SETTINGS_FILE
        if release in self.engines or release in self.house_engines or not path.exists():
            return self
        return self.read(path)

    def telling(
        self, engines: Mapping[str, dict[Role, EngineShape]], house: Collection[str]
    ) -> Self:
        """Add releases; those that are known keep what is wrong with them."""
        return self.model_copy(
            update={
                "engines": {**engines, **self.engines},
                "house_engines": self.house_engines | set(house),
            }
        )

    def spoiling(self, release: str, fault: Fault | None) -> Self:
        """Say what is wrong with the mocked engines of a release, from their next start on."""
        roles = self.engines.get(release, {})
        spoilt = {role: shape.model_copy(update={"fault": fault}) for role, shape in roles.items()}
        return self.model_copy(update={"engines": {**self.engines, release: spoilt}})

    @property
    def network(self) -> RegionNetwork:
        """The region's loopback addresses."""
        return RegionNetwork(lab=self.lab_number, index=self.region_index)

    @property
    def events_file(self) -> Path:
        """Where the agent appends what happens to pods, one JSON object a line."""
        return self.folder / EVENTS_FILE
