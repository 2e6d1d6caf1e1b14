"""`k3fleet weights plan` and `sync`: bring weights from the source into the regions' buckets."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli.output import print_json, print_line, print_table
from cli.weights_options import FLEET_FILE, Asked, asked, limit_options, places_options
from cli.weights_progress import watching
from fleet.units import format_bytes
from fleet.weights.needs import WeightSet
from infra.weights.fill import Filling, SourceLeft
from infra.weights.source import Known
from infra.weights.sync import Left
from infra.weights.tokenizer_file import write_tokenizer
from lab.interrupts import interruptible

_CHECK = click.option(
    "--check",
    "check_by",
    type=click.Choice(["reading", "checksum"]),
    default="reading",
    show_default=True,
    help="Believe a copy after reading it back, or by the CRC-64 that the store keeps of it.",
)
_LISTING = click.option(
    "--hub-listing",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The hub's listing of the revision, saved as a file: the source is compared with it.",
)
_TOKENIZER = click.option(
    "--tokenizer/--no-tokenizer",
    default=True,
    show_default=True,
    help="Make tokenizer.json of tiktoken.model where the source has none.",
)


@click.command()
@FLEET_FILE
@click.option(
    "--make-manifest",
    is_flag=True,
    help="Read the source once and write its manifest beside it. Else nothing is changed.",
)
@_LISTING
@_TOKENIZER
@limit_options
@places_options
def plan(fleet_file: Path, make_manifest: bool, **options: Any) -> None:
    """Show what FLEET_FILE needs, what the source has, and what each region lacks.

    \b
    Example:
        k3fleet weights plan fleets/launch.yaml
        k3fleet weights plan fleets/launch.yaml --make-manifest
    """
    found = asked(fleet_file, options)
    filling = _filling(found, options)
    if make_manifest:
        with interruptible(), watching(sys.stderr) as watch:
            filling.know(watch)
    _print_plan(filling, options["output"])


@click.command()
@FLEET_FILE
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@_CHECK
@_LISTING
@_TOKENIZER
@limit_options
@places_options
def sync(fleet_file: Path, dry_run: bool, **options: Any) -> None:
    """Copy the weights of FLEET_FILE into every region's bucket, and check them there.

    May be killed at any moment and run again: what is done stays done. Nothing is deleted.

    \b
    Example:
        k3fleet weights sync fleets/launch.yaml --dry-run
        k3fleet weights sync fleets/launch.yaml --region us-east --rate 2GB
    """
    found = asked(fleet_file, options)
    filling = _filling(found, options)
    if dry_run:
        _print_plan(filling, options["output"])
        return
    with interruptible(), watching(sys.stderr) as watch:
        known = filling.run(watch)
    if options["output"] == "json":
        print_json(
            {"regions": list(found.regions), "weights": [_told(*one) for one in known.items()]}
        )
        return
    for weights, one in known.items():
        size = format_bytes(one.manifest.total_bytes)
        where = ", ".join(found.regions)
        print_line(f"{weights.repo} {weights.revision}: {size} in {where}, every file checked")
        print_line(f"  manifest {one.manifest.digest}")


def _filling(found: Asked, options: Mapping[str, Any]) -> Filling:
    return Filling(
        places=found.places,
        needed=found.needed,
        regions=found.regions,
        check_by=options.get("check_by", "reading"),
        make_tokenizer=_make_tokenizer if options["tokenizer"] else None,
    )


def _make_tokenizer(files: Mapping[str, bytes]) -> bytes:
    """Convert a vocabulary in a folder that goes with it, which also tries the result out."""
    with tempfile.TemporaryDirectory(prefix="k3fleet-") as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        return write_tokenizer(Path(folder), force=False).content


def _told(weights: WeightSet, one: Known | SourceLeft) -> dict[str, Any]:
    told: dict[str, Any] = asdict(weights)
    if isinstance(one, SourceLeft):
        return {**told, "manifest": None, "files": one.files, "unread_bytes": one.unread_bytes}
    manifest = one.manifest
    return {
        **told,
        "manifest": manifest.digest,
        "files": len(manifest.files),
        "total_bytes": manifest.total_bytes,
    }


def _print_plan(filling: Filling, output: str) -> None:
    source, left = filling.plan()
    if output == "json":
        regions = {name: [asdict(one) for one in each] for name, each in left.items()}
        print_json({"source": [_told(*one) for one in source.items()], "regions": regions})
        return
    for weights, one in source.items():
        print_line(f"{weights.repo} {weights.revision}")
        print_line(f"  for {', '.join(filling.needed[weights])}")
        print_line(f"  {_source_line(one)}")
    rows = [_row(name, one) for name, each in left.items() for one in each]
    if rows:
        print_table(("region", "revision", "to copy", "to read back", "then"), rows)


def _source_line(one: Known | SourceLeft) -> str:
    if isinstance(one, SourceLeft):
        size = format_bytes(one.unread_bytes)
        return f"{one.files} files, no manifest: {size} to read once, by sync or --make-manifest"
    manifest = one.manifest
    size = format_bytes(manifest.total_bytes)
    return f"{len(manifest.files)} files, {size}, manifest {manifest.digest}"


def _row(region: str, one: Left) -> tuple[str, str, str, str, str]:
    copies = f"{len(one.send)} files, {format_bytes(one.send_bytes)}" if one.send else "-"
    reads = len(one.send) + len(one.check)
    then = "complete" if one.is_published else "write the manifest"
    return region, one.weights.revision[:12], copies, f"{reads} files" if reads else "-", then
