"""Tell a lab's node agents what stands for a release.

They look when a pod names a release that they do not know yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet.load import Fleet
from fleet.release import Release, release_id
from lab.agent_settings import SETTINGS_FILE, AgentSettings
from lab.engines import mocked_engines
from lab.faults import Fault
from lab.house_engine import house_engines
from lab.limits import require_rehearsable
from lab.state import RegionState


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns:
    """The mocked and house engines of a lab."""

    fleet: Fleet
    regions: Mapping[str, RegionState]
    search_path: str

    def announce(self, release: Release) -> None:
        """Make a release known; what was said to be wrong with it stays so."""
        fleet = replace(self.fleet, release=release, release_id=release_id(release))
        require_rehearsable(fleet, self.search_path)
        for settings in self._agents():
            engines = mocked_engines(fleet, settings.token_scale)
            settings.telling(engines, house_engines(fleet)).write()

    def spoil(self, release: Release, fault: Fault | None) -> None:
        """Say what is wrong with the stand-in of a release, or that nothing is."""
        self.announce(release)
        for settings in self._agents():
            settings.spoiling(release_id(release), fault).write()

    def _agents(self) -> list[AgentSettings]:
        return [
            AgentSettings.read(region.kubeconfig.parent / SETTINGS_FILE)
            for region in self.regions.values()
        ]
