"""Import a command only when it is called, so that no command waits for another's libraries."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import click


class ReaderGoneError(Exception):
    """Whoever read our output has closed it."""


class LazyCommand(NamedTuple):
    """Where a command lives, and its line in the list of commands."""

    target: str  # module:attribute
    short_help: str


class LazyGroup(click.Group):
    """A group that knows its commands' names and imports one when it is called."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names in their own order, which is that of the work."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module that holds a command."""
        command = self.lazy.get(cmd_name)
        if command is None:
            return None
        module, _, attribute = command.target.partition(":")
        return cast(click.Command, getattr(import_module(module), attribute))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; take a closed pipe from click, which would exit 1, our no-go."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGoneError from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.short_help) for name, command in self.lazy.items()])
