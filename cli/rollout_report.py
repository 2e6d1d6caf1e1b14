"""`k3fleet rollout report`: what a rollout did, over what its regions and users saw."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import click

from cli.output import output_option, print_facts, print_json, print_line
from cli.rollout_where import FLEET_FILE, rollouts_of, where_options
from fleet.errors import ConfigError
from infra.rollout.journal import Journal
from infra.rollout.record_file import naming
from infra.rollout.rollouts import Rollouts
from infra.rollout.sampling import figures_file, read_figures
from infra.rollout.steering import require_latest
from loadtest.results.saved_run import read_saved
from loadtest.rollout.document import build, report_json
from loadtest.rollout.page import key_figures, render


@click.command()
@FLEET_FILE
@click.option(
    "--rollout",
    "number",
    metavar="N",
    type=click.IntRange(min=1),
    help="Of `k3fleet history`. Default: the latest.",
)
@click.option(
    "--load",
    "load_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of a load test that was sent meanwhile: adds what its clients saw.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page. Default: beside the record.",
)
@where_options
@output_option
def report(
    fleet_file: Path,
    number: int | None,
    load_dir: Path | None,
    out: Path | None,
    output: str,
    **where: Any,
) -> None:
    """Write one page of a rollout: its steps over hit rate, first tokens, errors, who served.

    Reads the record and the figures that its driver kept in this working copy. Changes nothing
    in any cluster.

    \b
    Example:
        k3fleet rollout report fleets/demo.yaml
        k3fleet rollout report fleets/demo.yaml --rollout 3 --load RUN_FOLDER --out rollout.html
    """
    rollouts = rollouts_of(fleet_file, where)
    journal = _journal(rollouts, number)
    run = None if load_dir is None else read_saved(load_dir)
    figures = read_figures(figures_file(journal.path))
    name = rollouts.fleet.spec.name
    entries = journal.read()
    with naming(journal.path):
        found = build(name, int(journal.path.stem), entries, figures, run)
    version = importlib.metadata.version("k3fleet")
    page = out or journal.path.with_suffix(".html")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ConfigError(
            f"--out {page}: {page.parent} is no folder. Name another file."
        ) from error
    page.write_text(render(found, version), encoding="utf-8", newline="\n")
    if output == "json":
        print_json({**report_json(found, version), "page": str(page)})
        return
    print_line(f"rollout {found.number}, {found.old} -> {found.new}: {found.status}")
    print_facts((key.name, f"{key.value} ({key.below})") for key in key_figures(found))
    for text in found.missing:
        print_line(f"missing: {text}")
    print_line(f"report: {page}")


def _journal(rollouts: Rollouts, number: int | None) -> Journal:
    latest = require_latest(rollouts)
    if number is None:
        return latest
    known = rollouts.records()
    if number not in known:
        raise ConfigError(
            f"--rollout {number}: is not known here. Known: {', '.join(map(str, known))}; "
            f"see `k3fleet history {rollouts.fleet.path}`."
        )
    return known[number]
