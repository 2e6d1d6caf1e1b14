"""`k3fleet release`: see, make, compare and check releases."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from cli.output import output_option, print_json, print_line, print_table
from cli.release_output import (
    engine_lines,
    release_json,
    release_row,
    show_text,
    write_frozen,
)
from fleet.errors import ConfigError, Problem
from fleet.load import load_model, load_release
from fleet.presets import PRESET_FOLDERS, preset_names
from fleet.release import Release, release_id
from fleet.release_file import by_id, check_release, clash_problems, release_files
from fleet.release_new import new_release
from fleet.release_text import changes, frozen_text

FOLDER = "releases"
HERE = Path("here")  # paths on the command line are relative to where it is typed


@click.group()
def release() -> None:
    """See, make, compare and check releases.

    \b
    Example:
        k3fleet release list
        k3fleet release show vllm-tp8-dcp8
        k3fleet release diff vllm-tp8-dcp8 ./mine.yaml
    """


@release.command("list")
@click.argument("folder", default=FOLDER, type=click.Path(path_type=Path))
@output_option
def list_releases(folder: Path, output: str) -> None:
    """List the presets, and the release files of FOLDER (default: releases).

    A file that is no release is named after the list, and makes the exit code 3.

    \b
    Example:
        k3fleet release list
        k3fleet release list releases -o json
    """
    presets = [PRESET_FOLDERS["release"] / f"{name}.yaml" for name in preset_names("release")]
    if folder != Path(FOLDER) and not folder.is_dir():
        raise ConfigError(f"{folder}: is no folder. Give one that holds release files.")
    files = release_files(folder) if folder.is_dir() else []
    good, problems = _read([*presets, *files])
    rows = [release_row(found, "preset" if file in presets else str(file)) for file, found in good]
    if output == "json":
        print_json(rows)
    else:
        print_table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    if problems:
        raise ConfigError.of(problems)


@release.command()
@click.argument("name")
@click.option("--model", default="kimi-k3", show_default=True, help="A preset or a file.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True
)
def show(name: str, model: str, output: str) -> None:
    """Show release NAME (a preset or a file) in full, with the commands that it starts.

    \b
    Example:
        k3fleet release show vllm-tp8-dcp8
        k3fleet release show releases/mine-0a1b2c3d.yaml -o json
    """
    found = load_release(name, beside=HERE)
    lines = engine_lines(load_model(model, beside=HERE), found)
    if output == "json":
        print_json(release_json(found, lines))
    else:
        click.echo(show_text(found, lines), nl=False)


@release.command()
@click.argument("name")
@click.option("--from", "source", required=True, metavar="PRESET|FILE", help="What it builds on.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY.PATH=VALUE",
    help="Change a value; flags of args replace the same flags. Repeatable.",
)
@click.option("--image", metavar="REF", help="The engine image, by digest.")
@click.option(
    "--out",
    default=FOLDER,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to.",
)
@output_option
def new(
    name: str, source: str, settings: tuple[str, ...], image: str | None, out: Path, output: str
) -> None:
    """Freeze a new release NAME into a file that is called by its id.

    \b
    Example:
        k3fleet release new mine --from vllm-tp8-dcp8 --set max_num_seqs=128 \\
            --image registry.example/vllm@sha256:... \\
            --set dynamo.image=registry.example/dynamo@sha256:...
    """
    made = new_release(name, source, settings, image, beside=HERE)
    path = out / f"{release_id(made)}.yaml"
    is_new = not path.exists()
    if is_new:
        write_frozen(path, frozen_text(made, source))
    else:
        _refuse_other_content(path, made)
    if output == "json":
        print_json({"id": release_id(made), "file": str(path), "written": is_new})
    else:
        print_line(f"{path}: {'written' if is_new else 'unchanged, it holds this release already'}")


@release.command()
@click.argument("old")
@click.argument("new_name", metavar="NEW")
@output_option
def diff(old: str, new_name: str, output: str) -> None:
    """Show field by field what changes from release OLD to release NEW.

    \b
    Example:
        k3fleet release diff vllm-tp8-dcp8 releases/mine-0a1b2c3d.yaml
    """
    before, after = (load_release(item, beside=HERE) for item in (old, new_name))
    found = changes(before, after)
    if output == "json":
        ids = {"old": release_id(before), "new": release_id(after)}
        print_json({**ids, "same": not found, "changes": [asdict(change) for change in found]})
    elif found:
        click.echo(f"{release_id(before)} -> {release_id(after)}")
        rows = [(item.path, item.old or "-", item.new or "-") for item in found]
        print_table(("field", "old", "new"), rows)
    else:
        click.echo(f"same release: {release_id(before)}")


@release.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option
def verify(paths: tuple[Path, ...], output: str) -> None:
    """Check release files, or all in a folder: valid, unedited, ids unique. Exit 3 if not.

    \b
    Example:
        k3fleet release verify releases
    """
    files = [file for path in paths for file in release_files(path)]
    if not files:
        listed = ", ".join(str(path) for path in paths)
        raise ConfigError(f"{listed}: no release file is there. Give a folder that holds some.")
    rows = [{"id": release_id(found), "file": str(file)} for file, found in _checked(files)]
    if output == "json":
        print_json(rows)
    else:
        print_table(("id", "file"), [tuple(row.values()) for row in rows])


def _checked(files: list[Path]) -> list[tuple[Path, Release]]:
    """Read release files; raise one ConfigError with what is wrong in any of them."""
    found, problems = _read(files)
    if problems:
        raise ConfigError.of(problems)
    return found


def _read(files: list[Path]) -> tuple[list[tuple[Path, Release]], list[Problem]]:
    """Read release files; give the good ones, and what is wrong with the others."""
    found: list[tuple[Path, Release]] = []
    problems: list[Problem] = []
    for file in files:
        value, faults = check_release(file)
        problems += faults
        if value is not None:
            found.append((file, value))
    problems += clash_problems((str(file), value) for file, value in found)
    return found, problems


def _refuse_other_content(path: Path, made: Release) -> None:
    found = _checked([path])
    by_id([*((str(file), value) for file, value in found), ("the new release", made)])
