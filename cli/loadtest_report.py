"""`k3fleet loadtest report`: judge a saved run again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cli.loadtest_output import show_judged
from cli.output import output_option
from fleet.errors import ConfigError
from fleet.schema import found_text
from loadtest.judge.gates import DEFAULT_GATES_FILE, gates_file, load_gate_set
from loadtest.judge.judging import REPORT_KIND, judge_run
from loadtest.report.write import REPORT_FILE, write_files
from loadtest.results.saved_run import read_saved


@click.command()
@click.argument("run_folder", type=click.Path(path_type=Path))
@click.option(
    "--gates",
    metavar="NAME|FILE",
    help="rehearsal, endpoint, launch, drained, or a file. Default: those of the run.",
)
@click.option(
    "--out",
    "out_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the report goes. Default: RUN_FOLDER.",
)
@output_option
def report(run_folder: Path, gates: str | None, out_dir: Path | None, output: str) -> None:
    """Judge the saved files of RUN_FOLDER again, perhaps by other gates, and write its report.

    Nothing is asked and nothing is sent. Exit code 0 is go, 1 no-go, 2 could not be judged.

    \b
    Example:
        k3fleet loadtest report RUN_FOLDER --gates launch     # that loadtest run wrote
    """
    run = read_saved(run_folder)
    chosen = gates_file(gates) if gates else run.settings.gates_file or DEFAULT_GATES_FILE
    judged = judge_run(run, load_gate_set(chosen))
    folder = out_dir or run_folder
    _require_ours(folder)
    write_files(judged.report(), folder)
    show_judged(judged, folder, output)


def _require_ours(folder: Path) -> None:
    """Keep the report of a rehearsal, which holds more than this one."""
    path = folder / REPORT_FILE
    try:
        kind = json.loads(path.read_text(encoding="utf-8")).get("kind")
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError):
        kind = REPORT_KIND  # damaged: that is what writing it again is for
    if kind is None:
        raise ConfigError(
            f"{path}: is the report of a rehearsal, and would be replaced by one that holds less. "
            "Give another folder: --out DIR"
        )
    if kind != REPORT_KIND:
        raise ConfigError(
            f"{path}: is no report of a load test (kind: {found_text(kind)}), and would be "
            "replaced. Give another folder: --out DIR"
        )
