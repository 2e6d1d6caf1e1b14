"""The options that say where state is, and whose lab; apart, because they need no library."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.errors import ConfigError

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
KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Clusters of this file, by each region's context. Default: the lab that is up, or "
    "kubectl's.",
)


def require_one_place(lab_dir: Path | None, kubeconfig: Path | None) -> None:
    """Raise ConfigError where two places are named."""
    if lab_dir is not None and kubeconfig is not None:
        raise ConfigError("--lab, --kubeconfig: one of them says where. Leave the other out.")
