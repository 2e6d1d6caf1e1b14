"""A region half way through a rollout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rollout_site import DRAIN_S, FIRST, RACK, REGION, REPLICAS, FakeRegion, FakeStack, Rig, pods_of

from fleet.load import Fleet
from fleet.release import release_id
from fleet.rollout.record import Place, RecordedStep, Started
from fleet.rollout.strategy import Deadlines, Floor, Gates


@pytest.fixture
def rig(make_fleet: Callable[..., Fleet]) -> Rig:
    """Give a region of three replicas in which all is well, half way to a new release."""
    fleet = make_fleet({RACK: 6})
    old = fleet.release.model_copy(update={"drain_s": DRAIN_S, "name": "old"})
    fleet = replace(fleet, release=old, release_id=release_id(old))
    new = old.model_copy(update={"name": "new", "max_num_seqs": 9})
    stack = FakeStack(fleet, (release_id(new), new))
    pods = [pod for name in REPLICAS for pod in pods_of(name, fleet.release_id)]
    place = Place(replica=FIRST, rack=RACK, region=REGION)
    started = Started(
        at_s=0.0,
        by="t",
        old=fleet.release_id,
        new=release_id(new),
        steps=(RecordedStep(wave="canary", places=(place,)),),
        on_fail="hold",
        reruns=0,
        floor=Floor(rack=0.6, region=0.6),
        deadlines=Deadlines(ready_s=100.0, registered_s=20.0, gates_s=60.0),
        gates={"canary": Gates(min_requests=10, max_error_rate=0.1)},
    )
    return Rig(FakeRegion(stack, pods), started)
