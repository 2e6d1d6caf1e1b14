"""Say where a rollout is driven: in a lab that is up, or in the clusters of a kubeconfig."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cli.output import FunctionT
from cli.provision_options import ground
from cli.provision_progress import ShownProgress
from cli.wiring import kubeconfigs, surroundings
from cli.work_dir import KUBECONFIG, LAB, require_one_place, work_dir_option
from fleet.errors import LabError
from fleet.load import Fleet, load_fleet
from infra.provision.ground import FleetStacks
from infra.rollout.fleet_venue import FleetVenue
from infra.rollout.machine import TIME
from infra.rollout.rollouts import Rollouts
from lab.questions import engine_questions
from lab.rollout import LabVenue
from lab.state import lab_is_up

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))


def where_options(command: FunctionT) -> FunctionT:
    """Add the options that say which clusters, and which working copy."""
    return work_dir_option(LAB(KUBECONFIG(command)))


def rollouts_of(fleet_file: Path, where: Mapping[str, Any]) -> Rollouts:
    """Find the rollouts of a fleet, by the options of `where_options`."""
    fleet = load_fleet(fleet_file)
    lab_dir, kubeconfig = where["lab_dir"], where["kubeconfig"]
    require_one_place(lab_dir, kubeconfig)
    around = surroundings(fleet, where["work_dir"])
    if lab_dir is not None or (kubeconfig is None and lab_is_up(around.work_dir)):
        return Rollouts(venue=LabVenue.of(fleet, around, lab_dir))
    venue = _fleet_venue(fleet, where, around.work_dir)
    click.echo(f"rollout: {venue.said}", err=True)
    return Rollouts(venue=venue)


def _fleet_venue(fleet: Fleet, where: Mapping[str, Any], work_dir: Path) -> FleetVenue:
    files = kubeconfigs(where["kubeconfig"])
    if not any(file.is_file() for file in files):
        raise LabError(
            f"{work_dir}: no lab is up, and {', '.join(map(str, files))} is no kubeconfig. "
            f"Start a lab: k3fleet lab up {fleet.path}; or give --kubeconfig FILE."
        )
    options = {"work_dir": where["work_dir"], "kubeconfig": where["kubeconfig"]}
    stacks = FleetStacks.of(fleet, ground(fleet, options, ShownProgress(sys.stderr)))
    return FleetVenue.of(stacks, engine_questions(fleet.model.repo, TIME.now))
