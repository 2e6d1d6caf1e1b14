"""The option that says where state and reports go; apart, because it needs no library."""

from __future__ import annotations

from pathlib import Path

import click

work_dir_option = click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where state and reports go. Default: .k3fleet/FLEET_NAME",
)
