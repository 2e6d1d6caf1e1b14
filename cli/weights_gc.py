"""`k3fleet weights gc`: make room in the regions' buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.options import DURATION
from cli.output import print_json, print_line, print_table
from cli.provision_options import ALL_OPTIONS
from cli.provision_options import asked as provisioned
from cli.weights_options import FLEET_FILE, KUBECONFIG, asked, places_options
from fleet.units import format_bytes
from fleet.weights.needs import needed_by
from infra.weights.deployed import Deployed, LiveRegions
from infra.weights.gc import Garbage, delete_garbage, find_garbage
from infra.weights.in_use import Use
from infra.weights.places import Places


@click.command()
@FLEET_FILE
@click.option(
    "--keep-previous",
    type=click.IntRange(min=0, max=100),
    default=2,
    show_default=True,
    help="Rollouts whose releases keep their weights, the latest first.",
)
@click.option(
    "--uploads-older-than",
    type=DURATION,
    default="7d",
    show_default=True,
    help="Abort uploads that were begun so long ago.",
)
@click.option(
    "--assume-deployed",
    "vouched",
    metavar="RELEASE",
    multiple=True,
    help="Do not ask the stacks and clusters: these releases (presets or files) are what runs.",
)
@KUBECONFIG
@click.option("--dry-run", is_flag=True, help="List what would go, and do nothing.")
@YES
@places_options
def gc(
    fleet_file: Path,
    uploads_older_than: float,
    dry_run: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Delete revisions that no release in use needs, and uploads that were left open.

    In use are the fleet file's release, those that any region runs (its stack's outputs say it)
    or is told to run, and those of the latest rollouts, here and in the regions' clusters. Where
    that cannot be established, or a bucket keeps no versions, nothing is deleted.

    \b
    Example:
        k3fleet weights gc fleets/launch.yaml --dry-run
        k3fleet weights gc fleets/launch.yaml --yes
    """
    found = asked(fleet_file, options)
    places = found.places
    needed = needed_by(places.fleet.model, _use(fleet_file, places, options).releases())
    garbage = [
        find_garbage(
            name,
            places.region(name),
            needed,
            now_s=places.region(name).now_s(),  # a clock of ours may be wrong by a week
            uploads_older_than_s=uploads_older_than,
        )
        for name in found.regions
    ]
    if options["output"] == "json":
        print_json([asdict(one) for one in garbage])
    else:
        _print_garbage(garbage)
    if dry_run or not any(one.unneeded or one.uploads for one in garbage):
        return
    confirm(yes=yes, what="Delete what nobody needs, and abort the uploads?")
    for one in garbage:
        store = places.region(one.region)
        delete_garbage(store, places.lock(store), one, places.say)


def _use(fleet_file: Path, places: Places, options: Mapping[str, Any]) -> Use:
    """Ask all regions, those with a bucket elsewhere too, unless somebody vouches for them."""
    deployed: dict[str, Deployed] = {}
    if not options["vouched"]:
        which = {name: options[name] for name in ("kubeconfig", "work_dir")}
        with provisioned(fleet_file, {**ALL_OPTIONS, **which}) as what:
            live = LiveRegions(stacks=what.stacks, say=places.say)
            deployed = {one.name: live.read(one.name) for one in places.fleet.spec.regions}
    return Use(
        fleet=places.fleet,
        work_dir=places.work_dir,
        deployed=deployed,
        vouched=options["vouched"],
        extra=options["releases"],
        keep_previous=options["keep_previous"],
    )


def _print_garbage(garbage: Sequence[Garbage]) -> None:
    rows = [
        (
            one.region,
            kept.revision,
            format_bytes(kept.bytes),
            ", ".join(kept.needed_by) or "nobody: would be deleted",
        )
        for one in garbage
        for kept in one.revisions
    ]
    print_table(("region", "revision", "bytes", "needed by"), rows)
    for one in garbage:
        if one.uploads:
            size = format_bytes(sum(upload.bytes for upload in one.uploads))
            print_line(f"{one.region}: {len(one.uploads)} uploads left open, {size}")
