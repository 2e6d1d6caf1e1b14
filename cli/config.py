"""`k3fleet config`: check what the programs that make clusters will be told."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from cli.output import output_option, print_json, print_line, print_table
from cli.plain import plain
from fleet.errors import EXIT_CONFIG, EXIT_GO, ConfigError, Problem
from fleet.load import load_fleet
from fleet.provisioning import clusters_notes, clusters_problems
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
    a fleet without clusters can be planned, rendered and rehearsed. What nobody could
    verify yet is noted, and is no problem.

    \b
    Example:
        k3fleet config lint fleets/launch.yaml
        k3fleet config lint fleets/launch.yaml --stack Pulumi.cluster-us-east.yaml -o json

    \b
    Exit codes:
        0 clean, 3 problems
    """
    checked = _check(fleet_file, stacks)
    problems = checked.problems
    if output == "json":
        listed = {"problems": problems, "notes": checked.notes}
        shown = {name: [asdict(item) for item in items] for name, items in listed.items()}
        print_json({"clean": not problems, **shown})
        return EXIT_CONFIG if problems else EXIT_GO
    if problems:
        raise ConfigError.of(problems)
    for note in checked.notes:
        click.echo(plain(f"note: {note}"), err=True)
    rows = [(it.name, it.cloud, len(it.racks), _made(it)) for it in checked.regions]
    print_table(("region", "cloud", "racks", "cluster"), rows)
    print_line("no problems found")
    return EXIT_GO


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """What was found; `regions` of a fleet file that could be read."""

    problems: list[Problem]
    notes: list[Problem] = field(default_factory=list)
    regions: tuple[RegionSpec, ...] = ()


def _check(fleet_file: Path, stacks: tuple[Path, ...]) -> _Checked:
    try:
        fleet = load_fleet(fleet_file)
    except ConfigError as error:
        if not error.problems:
            raise
        return _Checked(problems=list(error.problems))
    document = read_document(fleet_file)
    problems = clusters_problems(document, fleet)
    for stack in stacks:
        problems += stack_file_problems(stack, fleet)
    notes = clusters_notes(document, fleet)
    return _Checked(problems=problems, notes=notes, regions=fleet.spec.regions)


def _made(region: RegionSpec) -> str:
    return "is there already" if region.is_there else "is made"
