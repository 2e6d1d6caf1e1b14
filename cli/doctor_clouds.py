"""Show what each cloud can and cannot promise: the part of `doctor` that reads no machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from cli.output import print_json, print_table
from fleet.clouds import CLOUDS, Cloud
from fleet.clouds.promises import Promise, promises_of
from fleet.load import load_fleet

ALL = "all"
clouds_option = click.option(
    "--clouds",
    type=click.Choice([ALL, *CLOUDS]),
    is_flag=False,
    flag_value=ALL,
    help="Show what clouds promise instead: all of them (those of FLEET_FILE, when it is given), "
    "or one with the reasons.",
)


def show_clouds(chosen: str, output: str, fleet_file: Path | None) -> None:
    """Print the promises of clouds side by side, or of one with what holds each up.

    `fleet_file`: of ALL only those that its regions are in.
    """
    known = load_fleet(fleet_file).spec.regions if fleet_file else ()
    asked = {region.cloud for region in known} or set(CLOUDS)
    found = {
        cloud: promises_of(cloud)
        for cloud in CLOUDS
        if cloud == chosen or (chosen == ALL and cloud in asked)
    }
    if output == "json":
        print_json({cloud: [asdict(promise) for promise in own] for cloud, own in found.items()})
    elif chosen == ALL:
        _print_all(found)
    else:
        _print_one(next(iter(found.values())))


def _print_all(found: Mapping[Cloud, Sequence[Promise]]) -> None:
    together = zip(*found.values(), strict=True)
    print_table(
        ["promise", *found],
        [[promises[0].what, *map(_short, promises)] for promises in together],
    )
    click.echo("yes*: read in public texts or an SDK, not seen on a rack. Reasons: --clouds CLOUD.")


def _print_one(promises: Sequence[Promise]) -> None:
    print_table(
        ["promise", "kept", "by what, or what to do"],
        [[promise.what, _short(promise), promise.instead] for promise in promises],
    )
    click.echo("yes*: read in public texts or an SDK, not seen on a rack.")


def _short(promise: Promise) -> str:
    word = "yes" if promise.kept else "no"
    return f"{word}*" if promise.unverified else word
