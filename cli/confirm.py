"""Ask before something is changed."""

from __future__ import annotations

import sys

import click

from fleet.errors import ConfigError

YES = click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")


def can_ask() -> bool:
    """Say whether somebody is there to answer; stdin is None where the caller closed it."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(*, yes: bool, what: str) -> None:
    """Go on only when the user agrees; raises ConfigError where nobody can be asked."""
    if yes:
        return
    if not can_ask():
        command = click.get_current_context().command_path
        raise ConfigError(f"{command}: nobody can be asked here. Give --yes.")
    click.confirm(what, abort=True, err=True)
