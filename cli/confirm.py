"""Ask before something is changed."""

from __future__ import annotations

import sys

import click

from fleet.errors import ConfigError

YES = click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")


def confirm(*, yes: bool, what: str) -> None:
    """Go on only when the user agrees; raises ConfigError where nobody can be asked."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():  # None: the caller closed it
        command = click.get_current_context().command_path
        raise ConfigError(f"{command}: nobody can be asked here. Give --yes.")
    click.confirm(what, abort=True, err=True)
