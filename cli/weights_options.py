"""What the commands of `k3fleet weights` share: their options, and the places they are about."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.output import FunctionT, output_option
from cli.progress import TerminalProgress
from cli.wiring import lock_holder, work_folder
from cli.work_dir import work_dir_option
from fleet.errors import ConfigError, Problem
from fleet.load import load_fleet
from fleet.units import UnitError, parse_bytes
from fleet.weights.hub_listing import MAX_BYTES, Listed, read_listing
from fleet.weights.needs import WeightSet, needed_by
from fleet.weights.parts import MAX_PART_BYTES, MIN_PART_BYTES
from fleet.yaml_document import file_content
from infra.rollout.lease import Time
from infra.weights.in_use import named_releases
from infra.weights.places import Places, check_revisions
from infra.weights.work import Limits

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))
KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Where the regions' contexts are. Default: $KUBECONFIG, or ~/.kube/config",
)


class _Size(click.ParamType[int]):
    name = "size"

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = parse_bytes(str(value))
        except UnitError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= size <= self._most:
            self.fail(f"{value} is not between {self._least} and {self._most} bytes.", param, ctx)
        return size


_MOST_RATE = 10**13  # 80 Tbit/s: no limit at all
_PLACES = (
    click.option("--region", "regions", multiple=True, help="Only this region; repeatable."),
    click.option(
        "--release",
        "releases",
        multiple=True,
        help="Also the weights of this release (a preset or a file), e.g. a candidate.",
    ),
    work_dir_option,
    output_option,
)
_LIMITS = (
    click.option(
        "--concurrency",
        type=click.IntRange(1, 256),
        default=8,
        show_default=True,
        help="Parts on their way at once, over all regions.",
    ),
    click.option(
        "--part-size",
        type=_Size(MIN_PART_BYTES, MAX_PART_BYTES),
        default="16MiB",
        show_default=True,
        help="Of parts that come past here; each of the concurrent ones is held in memory.",
    ),
    click.option(
        "--rate",
        type=_Size(1, _MOST_RATE),
        help="Bytes a second, over all regions, e.g. 2GB. Default: as fast as it goes.",
    ),
)


def places_options(command: FunctionT) -> FunctionT:
    """Add the options that say which fleet's weights a command is about."""
    return _with(_PLACES, command)


def limit_options(command: FunctionT) -> FunctionT:
    """Add the options that say how much a command may take."""
    return _with(_LIMITS, command)


def _with(options: tuple[Any, ...], command: FunctionT) -> FunctionT:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command line asked for."""

    places: Places
    regions: tuple[str, ...]
    needed: Mapping[WeightSet, tuple[str, ...]]


def asked(fleet_file: Path, options: Mapping[str, Any]) -> Asked:
    """Load the fleet, and find out which weights and which regions are meant."""
    fleet = load_fleet(fleet_file)
    progress = TerminalProgress(sys.stderr)
    listing = options.get("hub_listing")
    places = Places(
        fleet=fleet,
        work_dir=work_folder(fleet, options["work_dir"]),
        time=Time(clock=time.monotonic, now=lambda: datetime.now(UTC), pause=time.sleep),
        me=lock_holder(),
        limits=limits(options),
        listed=_listing(listing) if listing else None,
        say=progress.note,
    )
    known = {fleet.release.name: fleet.release}
    needed = needed_by(fleet.model, {**known, **named_releases(options["releases"])})
    check_revisions(needed)
    regions = places.regions(options["regions"])
    return Asked(places=places, regions=tuple(regions), needed=needed)


def limits(options: Mapping[str, Any]) -> Limits:
    """Read the limits of a run; a command without those options has the usual ones."""
    if "concurrency" not in options:
        return Limits()
    return Limits(
        concurrency=options["concurrency"],
        part_bytes=options["part_size"],
        bytes_per_s=options["rate"],
    )


def _listing(file: Path) -> Mapping[str, Listed]:
    content = file_content(file, MAX_BYTES, "Give the hub's listing, saved as a file")
    if isinstance(content, Problem):
        raise ConfigError.of([content])
    return read_listing(content, str(file))
