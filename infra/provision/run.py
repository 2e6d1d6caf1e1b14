"""Plan and act on all regions at once: what they share first, then each beside the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Literal

from infra.provision.applying import Applying
from infra.provision.claim import claimed
from infra.provision.ground import FleetStacks
from infra.provision.planning import Planning
from infra.provision.repair import refreshing
from infra.provision.request import Done, Planned, Request
from infra.stack_process import Track, run_tracks

Taking = Literal["up", "destroy"]
KILLED = (
    "killed: Pulumi had no time to write down what it had done, and may have left its lock. "
    "Next: k3fleet unlock FLEET --region R, then k3fleet refresh FLEET --region R --repair, "
    "then the same command again."
)


def plan(planning: Planning, action: Taking) -> tuple[Planned, ...]:
    """Find out what an action would do everywhere."""
    make = planning.up if action == "up" else planning.destroy
    ground = planning.stacks.ground
    tracks = [make(region, layers) for region, layers in planning.request.places]
    found = run_tracks(tracks, ground.clock, partial(ground.reporter.note, KILLED))
    firmly = all(one.idle for one in found if not one.region)
    return tuple(one.standing(firmly=firmly or not one.region) for one in found)


def act(applying: Applying, planned: Sequence[Planned], action: Taking) -> tuple[Done, ...]:
    """Do what was planned; a region whose plan failed is left alone."""
    make = applying.up if action == "up" else applying.destroy
    ready = [one for one in planned if one.error is None]
    shared = [one for one in ready if not one.region]
    own = [one for one in ready if one.region]
    first, then = (own, shared) if action == "destroy" else (shared, own)
    run = partial(_run, applying.planning.stacks)
    done = run([make(one) for one in first])
    if any(one.error for one in done):
        return done
    return done + run([make(one) for one in then])


def refresh(stacks: FleetStacks, request: Request) -> tuple[Done, ...]:
    """Read all stacks again from what is there."""
    make = partial(refreshing, stacks, repair=request.repair)
    return _run(stacks, [make(region, layers) for region, layers in request.places])


@contextmanager
def held(stacks: FleetStacks, request: Request, what: str, user: str) -> Iterator[None]:
    """Keep other processes of this working copy away from the stacks."""
    with ExitStack() as stack:
        for region, layers in request.places:
            for layer in layers:
                folder = stacks.bare(layer, region).folder
                stack.enter_context(claimed(folder, what, user, stacks.ground.now()))
        yield


def _run(stacks: FleetStacks, tracks: Sequence[Track[Done]]) -> tuple[Done, ...]:
    on_kill: Callable[[], None] = partial(stacks.ground.reporter.note, KILLED)
    return tuple(run_tracks(tracks, stacks.ground.clock, on_kill))
