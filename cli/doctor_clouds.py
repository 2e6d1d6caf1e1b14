"""Show what each cloud can and cannot promise: the part of `doctor` that reads no machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from cli.output import print_json, print_table
from fleet.clouds import CLOUDS, Cloud
from fleet.clouds.promises import Promise, promises_of

ALL = "all"
clouds_option = click.option(
    "--clouds",
    type=click.Choice([ALL, *CLOUDS]),
    is_flag=False,
    flag_value=ALL,
    help="Show what clouds promise instead: all of them, or one with the reasons.",
)


def show_clouds(chosen: str, output: str) -> None:
    """Print the promises of all clouds side by side, or of one with what holds each up."""
    found = {cloud: promises_of(cloud) for cloud in CLOUDS if chosen in (ALL, cloud)}
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
