"""Say how a running lab is used by hand."""

from __future__ import annotations

from pathlib import Path

import click

from lab.state import LabState


def print_usage(lab: LabState) -> None:
    """Print the commands for kubectl, curl, pulumi and locust."""
    click.echo(f"The lab is up. First, in your shell:\n    . {_shown(lab.env_file)}")
    for name, region in lab.regions.items():
        kubectl = f"kubectl --kubeconfig {_shown(region.kubeconfig)} -n {lab.namespace}"
        config = f"--stack {region.serving_stack} --config-file {region.stack_config}"
        click.echo(f"{name}:")
        click.echo(f"    {kubectl} get pods")
        click.echo(f"    curl {region.gateway_url}/v1/models")
        click.echo(f"    pulumi -C infra/serving up {config}")
    click.echo("Traffic, with a web UI on http://127.0.0.1:8089:")
    settings = _shown(lab.load_settings)
    click.echo(f"    locust -f loadtest/locustfiles/agentic.py --settings {settings}")
    click.echo(f"End it:\n    k3fleet lab down {_shown(lab.fleet_file)}")


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
