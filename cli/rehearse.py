"""`k3fleet rehearse`: the whole launch on this machine, and a verdict."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from cli.lab_usage import print_usage
from cli.options import DURATION, SEED, FiniteRange, lab_options
from cli.output import output_option, print_json
from cli.wiring import surroundings
from fleet.errors import EXIT_GO, EXIT_INVALID, EXIT_NO_GO
from fleet.load import load_fleet
from lab.rehearsal import RehearsalOptions
from lab.rehearse import rehearse as run_rehearsal
from lab.report import read_report, terminal_summary

EXIT_CODES = {"go": EXIT_GO, "no-go": EXIT_NO_GO, "invalid": EXIT_INVALID}
WEB_PORT = 8089  # Locust's own default


@click.command()
@click.argument("fleet_file", type=click.Path(path_type=Path))
@click.option(
    "--traffic",
    default="interactive_agent",
    show_default=True,
    metavar="PROFILE|profile:PATH|trace:[FORMAT:]PATH",
    help="Traffic profile, or recorded sessions to replay.",
)
@click.option(
    "--users",
    type=click.IntRange(1, 10_000),
    help="Closed loop: agents at work at once. Default: two for each replica.",
)
@click.option(
    "--sessions-per-minute",
    type=FiniteRange(0, 60_000, min_open=True),
    help="Open loop: new sessions arrive at this rate.",
)
@click.option(
    "--duration",
    "duration_s",
    type=DURATION,
    default="60s",
    show_default=True,
    help="Length of the traffic, e.g. 90s or 5m.",
)
@click.option(
    "--time-scale",
    type=FiniteRange(1, 1_000_000),
    default=60,
    show_default=True,
    help="Divide all pauses of agents and people by this.",
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the traffic.")
@click.option(
    "--gates",
    metavar="NAME|FILE",
    default="rehearsal",
    show_default=True,
    help="Limits to judge by: rehearsal, endpoint, launch, drained, or a file.",
)
@click.option(
    "--web", is_flag=True, help="Show Locust's web UI on 127.0.0.1:8089 while traffic runs."
)
@click.option("--keep", is_flag=True, help="Leave the lab up, and say how to use it.")
@lab_options
@output_option
def rehearse(
    fleet_file: Path, work_dir: Path | None, output: str, *, web: bool, **given: object
) -> None:
    """Launch FLEET_FILE on this machine, send traffic, and judge.

    Real are the control plane, Pulumi, the router, the gateway and the load; only GPUs and time
    are mocked. Exit code 0 is go, 1 no-go, 2 could not be judged. The command of a house engine
    is really run, as you and without its image.

    \b
    Example:
        k3fleet rehearse fleets/demo.yaml
        k3fleet rehearse fleets/demo.yaml --users 40 --duration 5m --web
        k3fleet rehearse fleets/demo.yaml --traffic trace:sessions/ -o json
    """
    fleet = load_fleet(fleet_file)
    options = RehearsalOptions(web_port=WEB_PORT if web else None, **given)  # type: ignore[arg-type]
    result = run_rehearsal(fleet, options, surroundings(fleet, work_dir))
    if output == "json":
        print_json({**result.report, "folder": str(result.folder)})
    else:
        Console().print(terminal_summary(read_report(result.report)))
        click.echo(f"report: {result.folder / 'report.html'}")
    if result.lab is not None and output == "table":
        print_usage(result.lab)
    click.get_current_context().exit(EXIT_CODES[result.verdict])
