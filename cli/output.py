"""Print results: JSON for programs, tables for people. Results go to stdout only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.plain import plain

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

PIPED_WIDTH = 120  # rich assumes 80 columns for a pipe and would cut rack names


class _Console(Console):
    """A console that leaves a closed pipe to `cli.main`; rich would exit 1, our no-go."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise BrokenPipeError


def output_option(command: FunctionT) -> FunctionT:
    """Add `-o json|table` to a command, as every command has it."""
    return output_choice("table", "json")(command)


def output_choice(*formats: str) -> Callable[[FunctionT], FunctionT]:
    """Add `-o` with some formats to a command; the first is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def print_json(data: object) -> None:
    """Print data as indented JSON."""
    click.echo(json.dumps(data, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, numbers to the right."""
    table = Table()
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int | float) for row in rows)
        table.add_column(column, justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(Text(plain(str(cell))) for cell in row))
    console = _Console()
    if not console.is_terminal:
        console = _Console(width=PIPED_WIDTH)
    console.print(table, highlight=False)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print `name  value` lines, aligned."""
    lines = list(facts)
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print_line(f"{name:<{width}}  {value}")


def print_line(text: str) -> None:
    """Print one line, whatever is in it."""
    click.echo(plain(text))
