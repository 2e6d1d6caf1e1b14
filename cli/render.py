"""`k3fleet render`: the manifests of a fleet as files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from cli.output import output_option, print_json, print_line
from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from fleet.plan import make_plan
from infra.manifests import write_manifests
from infra.options import Layer
from infra.render import KubeObject, render_region
from infra.values import region_plan
from lab.interrupts import interruptible


@click.command()
@click.argument("fleet_file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "out_dir",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to write; replaced whole if an earlier `render` made it.",
)
@click.option("--region", help="Only this region; default: all.")
@output_option
def render(fleet_file: Path, out_dir: Path, region: str | None, output: str) -> None:
    """Write the Kubernetes manifests of a fleet, one file per object.

    The same fleet file gives the same bytes. Nothing is applied.

    \b
    Example:
        k3fleet render fleets/demo.yaml --out build/manifests
    """
    fleet = load_fleet(fleet_file)
    regions = [region] if region else [item.name for item in fleet.spec.regions]
    plan = make_plan(fleet)
    for name in regions:
        region_plan(plan, name)  # refuse an unknown region before anything is written
    _refuse_here(out_dir)
    with interruptible():  # a signal leaves no half-written folder behind
        files = write_manifests(_folders(fleet, regions), out_dir)
    if output == "json":
        print_json({"out": str(out_dir), "files": files, "regions": regions})
    else:
        print_line(f"{files} files for {', '.join(regions)} in {out_dir}")


def _refuse_here(out_dir: Path) -> None:
    """Refuse to replace the folder that the shell is in: its next command would find nothing."""
    if Path.cwd().is_relative_to(os.path.realpath(out_dir)):
        raise ConfigError(
            f"--out {out_dir}: you are in this folder, which would be replaced. "
            "Give a folder below it, for example manifests."
        )


def _folders(fleet: Fleet, regions: list[str]) -> Iterator[tuple[str, list[KubeObject]]]:
    for region in regions:
        for layer in get_args(Layer):
            yield f"{region}/{layer}", render_region(fleet, region, layer)
