"""`k3fleet loadtest compare`: say what differs between two runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from cli.output import output_option, print_json, print_line, print_table
from fleet.errors import EXIT_GO, EXIT_INVALID, EXIT_NO_GO, ConfigError
from loadtest.judge.comparison import Comparison, compare, different_traffic
from loadtest.report.wording import gate_number
from loadtest.results.saved_run import SavedRun, read_saved

FOLDER = click.Path(path_type=Path)


@click.command("compare")
@click.argument("a", type=FOLDER)
@click.argument("b", type=FOLDER)
@click.option("--force", is_flag=True, help="Compare runs of different traffic too.")
@output_option
def compare_command(a: Path, b: Path, output: str, *, force: bool) -> None:
    """Say for each figure whether run B is better or worse than run A, or within noise.

    Runs with the same seed are compared step by step. Exit code 0: nothing is worse, 1: something
    is, 2: nothing could be compared, 3: not the same traffic.

    \b
    Example:
        k3fleet loadtest compare RUN_A RUN_B     # folders that loadtest run wrote
    """
    run_a, run_b = read_saved(a), read_saved(b)
    _require_same_traffic(run_a, run_b, force=force)
    found = compare(run_a, run_b)
    if output == "json":
        print_json({"a": str(a), "b": str(b), **asdict(found)})
    else:
        _print(found, a.name, b.name)
    click.get_current_context().exit(_exit_code(found))


def _require_same_traffic(a: SavedRun, b: SavedRun, *, force: bool) -> None:
    differences = different_traffic(a.settings, b.settings)
    if differences and not force:
        raise ConfigError(
            f"{b.path}: was not sent the traffic of {a.path}: {'; '.join(differences)}. "
            "Compare runs of the same traffic, or give --force to compare unequal ones."
        )


def _print(found: Comparison, name_a: str, name_b: str) -> None:
    print_line(
        f"{found.pairs} pairs of the same step of the same session"
        if found.paired
        else "no pairs: means over slices of time are compared"
    )
    rows = [
        (
            difference.metric,
            gate_number(difference.a),
            gate_number(difference.b),
            _band(difference.low, difference.high),
            difference.word,
        )
        for difference in found.differences
    ]
    print_table(("figure", f"A: {name_a}", f"B: {name_b}", "B - A, 95 %", "B is"), rows)
    counts = Counter(difference.word for difference in found.differences)
    print_line("B: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))


def _band(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "—"
    return f"{low:+,.4g} … {high:+,.4g}"


def _exit_code(found: Comparison) -> int:
    if not found.says_something:
        return EXIT_INVALID
    return EXIT_NO_GO if found.worse else EXIT_GO
