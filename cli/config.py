"""`k3fleet config`: check what the programs that make clusters will be told."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from cli.output import output_option, print_json, print_line, print_table
from fleet.errors import EXIT_CONFIG, EXIT_GO, ConfigError, Problem
from fleet.load import load_fleet
from fleet.provisioning import clusters_problems
from fleet.region_spec import RegionSpec
from fleet.yaml_document import read_document
from infra.stack_config import stack_file_problems


@click.group()
def config() -> None:
    """Check configuration without starting anything.

    \b
    Example:
        k3fleet config lint fleets/demo.yaml
    """


@config.command("lint")
@click.argument("fleet_file", type=click.Path(path_type=Path))
@click.option(
    "--stack",
    "stacks",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A stack's Pulumi.STACK.yaml to check too. Can be given again.",
)
@output_option
def lint(fleet_file: Path, stacks: tuple[Path, ...], output: str) -> int:
    """Check a fleet file for making its clusters: all that the programs check, and all at once.

    Needs neither Pulumi nor an account. `k3fleet plan` asks less of the same file:
    a fleet without clusters can be planned, rendered and rehearsed.

    \b
    Example:
        k3fleet config lint fleets/launch.yaml
        k3fleet config lint fleets/launch.yaml --stack Pulumi.cluster-us-east.yaml -o json

    \b
    Exit codes:
        0 clean, 3 problems
    """
    regions, problems = _checked(fleet_file, stacks)
    if output == "json":
        print_json({"clean": not problems, "problems": [asdict(item) for item in problems]})
        return EXIT_CONFIG if problems else EXIT_GO
    if problems:
        raise ConfigError.of(problems)
    rows = [(region.name, region.cloud, len(region.racks), _made(region)) for region in regions]
    print_table(("region", "cloud", "racks", "cluster"), rows)
    print_line("no problems found")
    return EXIT_GO


def _checked(
    fleet_file: Path, stacks: tuple[Path, ...]
) -> tuple[tuple[RegionSpec, ...], list[Problem]]:
    try:
        fleet = load_fleet(fleet_file)
    except ConfigError as error:
        if not error.problems:
            raise
        return (), list(error.problems)
    problems = clusters_problems(read_document(fleet_file), fleet)
    for stack in stacks:
        problems += stack_file_problems(stack, fleet)
    return fleet.spec.regions, problems


def _made(region: RegionSpec) -> str:
    return "is there already" if region.cloud == "existing" else "is made"
