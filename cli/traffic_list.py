"""List the traffic profiles."""

from __future__ import annotations

import click

from cli.output import output_option, print_json, print_table
from loadtest.traffic.profiles import known_profiles, load_profile


@click.command("list")
@output_option
def list_profiles(output: str) -> None:
    """List the profiles that come with k3fleet.

    \b
    Example:
        k3fleet traffic list
    """
    rows = [(name, load_profile(name).about) for name in known_profiles()]
    if output == "json":
        print_json([{"name": name, "about": about} for name, about in rows])
    else:
        print_table(("profile", "what it is"), rows)
