"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.work_dir import work_dir_option
from fleet.units import UnitError, parse_duration
from loadtest.settings import LEAST_SEED, MOST_SEED

MAX_TOKEN_SCALE = 256  # beyond it a typical prompt is shorter than a few cache blocks
_MOST_DURATION_S = 10 * 366 * 86_400  # more than any wait; a time of the day stays one
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except UnitError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"{value} is not a positive duration.", param, ctx)
        if seconds > _MOST_DURATION_S:
            self.fail(f"{value} is longer than ten years.", param, ctx)
        return seconds


DURATION = _Duration()


class FiniteRange(click.FloatRange):
    """A range of numbers; `nan` passes click's own, because it is neither below nor above."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


# Wide of any that exists; their quotient has to be a number.
TOKENS_PER_S = FiniteRange(0, 1e12, min_open=True)
TOKENS_PER_CHUNK = FiniteRange(0.01, 1e6)
SEED = click.IntRange(LEAST_SEED, MOST_SEED)


def lab_options(command: FunctionT) -> FunctionT:
    """Add the options that shape a lab to a command."""
    for option in reversed(_LAB_OPTIONS):
        command = option(command)
    return command


_LAB_OPTIONS = (
    click.option(
        "--token-scale",
        type=click.IntRange(1, MAX_TOKEN_SCALE),
        default=16,
        show_default=True,
        help="Divide prompts, answers and the engines' cache by this.",
    ),
    click.option(
        "--tokenizer",
        "tokenizer_dir",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="K3's tokenizer files. Default: a small tokenizer made on this machine.",
    ),
    work_dir_option,
)
