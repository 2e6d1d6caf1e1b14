"""`k3fleet racks preflight`: may these racks serve?"""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import click

from cli.output import output_option, print_json, print_line, print_table
from cli.racks_where import FLEET_FILE, RACK, REGION, places, racks_asked, where_options
from fleet.racks.floors import load_floors
from fleet.racks.preflight import EXIT_CODES, Check, preflight, worst
from infra.racks.reports import collect

_REPORTS = (
    "Nodes without a report: bring them with `node_report` in the fleet file, or give files with "
    "--from-reports (docs/racks.md)."
)


@click.command(name="preflight")
@FLEET_FILE
@REGION
@RACK
@click.option(
    "--from-reports",
    "reports_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Reports of charts/platform/node-report.py as files, one a node, instead of its pods.",
)
@click.option(
    "--floors",
    "floors_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Oldest versions that will do. Default: fleet/racks/floors.yaml, with their sources.",
)
@where_options
@output_option
def preflight_racks(
    fleet_file: Path,
    region: str | None,
    rack: str | None,
    reports_dir: Path | None,
    floors_file: Path | None,
    output: str,
    **where: Any,
) -> int:
    """Check whether racks may serve: nodes, fabric, versions, disks. Changes nothing.

    Exit code 0: all is well. 1: something is wrong. 2: something could not be seen, for example
    because a node has no report (`node_report` in the fleet file brings them).

    \b
    Example:
        k3fleet racks preflight fleets/demo.yaml
        k3fleet racks preflight fleets/demo.yaml --rack use1-r01 --from-reports reports -o json
    """
    floors = load_floors(floors_file)
    found = places(fleet_file, where)
    judged: dict[tuple[str, str], tuple[Check, ...]] = {}
    for name, _, racks in racks_asked(found, region, rack):
        evidence = collect(found.clusters[name], reports_dir)
        for one in racks:
            judged[name, one.id] = preflight(one, found.fleet.hardware, floors, evidence)
    verdict = worst(check for checks in judged.values() for check in checks)
    if output == "json":
        told = [
            {
                "region": where_it_is,
                "rack": name,
                "verdict": worst(checks),
                "checks": [asdict(check) for check in checks],
            }
            for (where_it_is, name), checks in judged.items()
        ]
        print_json({"verdict": verdict, "floors": floors.model_dump(), "racks": told})
    else:
        for (where_it_is, name), checks in judged.items():
            print_line(f"{where_it_is} {name}: {worst(checks)}")
            rows = [(check.name, check.verdict, check.says) for check in checks]
            print_table(("check", "verdict", "found"), rows)
        print_line(f"verdict: {verdict}")
        every = chain.from_iterable(judged.values())
        if any(check.name == "reports" and check.verdict != "ok" for check in every):
            print_line(_REPORTS)
    return EXIT_CODES[verdict]
