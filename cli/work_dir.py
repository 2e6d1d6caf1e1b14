"""The options that say where state is, and whose lab; apart, because they need no library."""

from __future__ import annotations

from pathlib import Path

import click

work_dir_option = click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where state and reports go. Default: .k3fleet/FLEET_NAME",
)
LAB = click.option(
    "--lab",
    "lab_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Work folder that started the lab, when it is not this one's --work-dir.",
)
