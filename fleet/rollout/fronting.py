"""Decide where frontends and gateway change in a rollout, and how long that takes. Pure.

They serve all replicas of a region at once, so no canary tells about them. They come last in their
region: until then every comparison of new replicas with old ones is made behind one router, and
what is wrong with a release is found where it costs one replica. They come before the next
region begins, so that what is wrong with them costs one region.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from fleet.errors import ConfigError
from fleet.release import Release
from fleet.release_set import release_set
from fleet.rollout.mixing import mixing
from fleet.rollout.strategy import Assumed, Gates
from fleet.rollout.timing import StepTimes
from fleet.spec import FleetSpec

# Assumed, to be measured: a pod is placed, pulls its image and reads its tokenizer. A Deployment
# makes one new pod at a time, and the next when that one is Ready.
POD_START_S = 60.0


def to_change(
    following: Mapping[str, Release], old: Release, new: Release, regions: Iterable[str]
) -> tuple[str, ...]:
    """Name the regions whose frontends or gateway are not as a release has them.

    `following`: the release that they follow now, by region; those not named follow `old`. Raises
    ConfigError where a way back to `old` would not lead to what is there.
    """
    found = []
    for region in regions:
        now = following.get(region, old)
        now = old if overtaken(now, old) else now
        if not mixing(now, new).region:
            continue
        if other := mixing(now, old).region:
            raise ConfigError(
                f"{region}: its frontends and gateway follow release {now.name}, which has another "
                f"{', '.join(other)} than {old.name} of its replicas. Bring both to one release "
                "first: k3fleet rollback, or a rollout to that release."
            )
        found.append(region)
    return tuple(found)


def overtaken(now: Release, old: Release) -> bool:
    """Say whether a region was told to follow a release of a set that its replicas have left.

    No step of that rollout changed what it is told, since the gateway is the same by both. The
    frontends that came with the replicas' set follow one of them, and so has to be told which:
    else they would change in the step of the last replica.
    """
    return release_set(now) != release_set(old) and not mixing(now, old).region


@dataclass(frozen=True, slots=True, kw_only=True)
class Fronting:
    """What is to change of frontends and gateways."""

    regions: tuple[str, ...]
    frontends: int  # of a region
    gateways: int

    @classmethod
    def of(cls, spec: FleetSpec, regions: tuple[str, ...]) -> Self:
        """Take the numbers of a fleet file."""
        return cls(
            regions=regions, frontends=spec.frontends.replicas, gateways=spec.gateway.replicas
        )

    def times(self, replicas: int, gates: Gates, assumed: Assumed) -> StepTimes:
        """Say how long it takes to change a region; both Deployments roll side by side."""
        return StepTimes(
            drain_s=0.0,
            update_s=assumed.update_s,
            load_s=0.0,
            warm_up_s=max(self.frontends, self.gateways) * POD_START_S,
            register_s=assumed.register_s,
            questions_s=assumed.questions_s * self.frontends,
            gates_s=gates.min_requests / (assumed.requests_per_s * replicas),
        )
