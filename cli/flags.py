"""`k3fleet flags`: the tables of engine flags that `k3fleet lint` checks against."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import click

from cli.output import output_option, print_json, print_table
from fleet.errors import ConfigError
from fleet.flag_table import TABLES
from infra.flag_sources.table import flag_counts
from infra.flag_sources.update import update as make_table

CHECKOUT_MARK = "pyproject.toml"  # beside the packages in a source checkout only


@click.group()
def flags() -> None:
    """Make and list the tables of engine flags.

    \b
    Example:
        k3fleet flags list
        k3fleet flags update vllm==0.33.0
    """


@flags.command()
@click.argument("target", metavar="ENGINE==VERSION")
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A wheel on this machine; repeat it for Dynamo's two. Others are downloaded.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the table goes. Default: into the source checkout.",
)
def update(target: str, wheels: tuple[Path, ...], out: Path | None) -> None:
    """Make the table of a version of vllm, sglang or dynamo from its wheels.

    Needs the network, unless all wheels are given: pip fetches hundreds of megabytes
    into a temporary folder. Nothing of the engine is installed or run, but Dynamo's
    native library is asked for its parser names.

    \b
    Example:
        k3fleet flags update vllm==0.33.0
        k3fleet flags update sglang==0.5.23 --wheel sglang-0.5.23-….whl --out tables
    """
    made = make_table(target, wheels, out or _checkout())
    click.echo(f"{made.file}: {_counted(made.content)}")


def _checkout() -> Path:
    """Find the folder of the shipped tables; an installed package is not ours to change."""
    if not (TABLES.parent.parent / CHECKOUT_MARK).is_file():
        raise ConfigError(
            f"{TABLES}: belongs to an installed package. Give a folder with --out, "
            "or work in a source checkout."
        )
    return TABLES


@flags.command("list")
@output_option
def list_tables(output: str) -> None:
    """List the versions that have a table, with their source wheels.

    \b
    Example:
        k3fleet flags list
        k3fleet flags list -o json
    """
    contents = [json.loads(gzip.decompress(file.read_bytes())) for file in _files()]
    if output == "json":
        print_json([_row(content) for content in contents])
        return
    rows = [
        (content["engine"], content["version"], _counted(content), _wheels(content))
        for content in contents
    ]
    print_table(("engine", "version", "knows", "from"), rows)


def _files() -> list[Path]:
    return sorted(TABLES.glob("*.json.gz"))


def _row(content: Any) -> dict[str, object]:
    return {
        "engine": content["engine"],
        "version": content["version"],
        "flags": flag_counts(content),
        "variables": len(content["env"]),
        "sources": content["sources"],
    }


def _counted(content: Any) -> str:
    counts = flag_counts(content).items()
    parts = [f"{name} {count} flags".strip() for name, count in counts]
    return ", ".join([*parts, f"{len(content['env'])} variables"])


def _wheels(content: Any) -> str:
    return " ".join(f"{each['wheel']} {each['sha256'][:12]}" for each in content["sources"])
