"""`k3fleet doctor`: what the lab needs, what is there, and what to do."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from cli.doctor_clouds import clouds_option, show_clouds
from cli.output import output_option, print_facts, print_json, print_table
from cli.progress import TerminalProgress
from cli.wiring import tool_surroundings
from fleet.errors import EXIT_GO, ConfigError, ToolError
from lab.diagnosis import Diagnosis, ToolState, diagnose
from lab.toolchain import Origin, ensure_tools


@click.command()
@click.argument("fleet_file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--stacks", is_flag=True, help="Find what cut-off updates left in FLEET_FILE's stacks."
)
@click.option("--build", is_flag=True, help="Build what is missing now.")
@clouds_option
@output_option
def doctor(
    output: str, clouds: str | None, fleet_file: Path | None, *, stacks: bool, build: bool
) -> int:
    """Check the tools that the lab needs, a fleet's stacks, or say what clouds promise.

    Tools that are missing but can be built are built by the first rehearsal, or with --build.
    Exit code 0 when everything is there or can be built, 5 otherwise; with --stacks 1 when one
    needs a repair.

    \b
    Example:
        k3fleet doctor
        k3fleet doctor --build
        k3fleet doctor -o json
        k3fleet doctor --clouds
        k3fleet doctor --clouds gcp
        k3fleet doctor fleets/launch.yaml --clouds
        k3fleet doctor fleets/launch.yaml --stacks
    """
    if clouds:
        show_clouds(clouds, output, fleet_file)
        return EXIT_GO
    if stacks != bool(fleet_file):
        raise ConfigError("k3fleet doctor: FLEET_FILE and --stacks belong together. Give both.")
    if fleet_file:
        # Pulumi's and Kubernetes' libraries are loaded for this only.
        from cli.doctor_stacks import show_stacks  # noqa: PLC0415

        return show_stacks(fleet_file, {"output": output})
    cache_dir, environ = tool_surroundings()
    if build:
        progress = TerminalProgress(sys.stderr)
        ensure_tools(cache_dir=cache_dir, environ=environ, progress=progress)
    result = diagnose(cache_dir=cache_dir, environ=environ)
    if output == "json":
        print_json({"ok": not result.problems, **asdict(result)})
    else:
        _print(result)
    return ToolError.exit_code if result.problems else EXIT_GO


def _print(result: Diagnosis) -> None:
    columns = ["tool", "wanted", "status", "found"]
    rows = [[tool.name, tool.wanted, tool.status, _found(tool)] for tool in result.tools]
    if any(tool.fix for tool in result.tools):
        columns.append("what to do")
        rows = [[*row, tool.fix] for row, tool in zip(rows, result.tools, strict=True)]
    print_table(columns, rows)
    print_facts(result.machine.items())
    for problem in result.problems:
        click.echo(f"problem: {problem}", err=True)


def _found(tool: ToolState) -> str:
    """Shorten where a tool is: whole paths are in the JSON."""
    if tool.found in (Origin.BUILT, Origin.WHEEL):
        return f"{tool.found}: {'/'.join(Path(tool.where).parts[-2:])}"
    return tool.where or tool.found
