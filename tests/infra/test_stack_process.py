"""Tracks: what runs side by side, and who waits for whom."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.stack_process import Command, Track, run_tracks


def command(folder: Path, script: str) -> Command:
    log = folder / f"{abs(hash(script))}.log"
    return Command(argv=("/bin/sh", "-c", script), folder=folder, env=dict(os.environ), log=log)


def steps(folder: Path, *scripts: str) -> Track[list[int]]:
    codes = []
    for script in scripts:
        codes.append((yield command(folder, script)))  # noqa: PERF401 - a generator sends
    return codes


def test_a_track_goes_on_while_another_waits(tmp_path: Path) -> None:
    """A slow region must not hold the others up: here it ends only by what they do last."""
    slow = steps(tmp_path, "until [ -e done ]; do sleep 0.05; done")
    quick = steps(tmp_path, "exit 3", "true", "touch done")
    assert run_tracks([slow, quick]) == [[0], [3, 0, 0]]


def test_a_mistake_of_ours_leaves_no_process(tmp_path: Path) -> None:
    """And every track may put its files in order."""
    tidied = []

    def long() -> Track[int]:
        try:
            return (yield command(tmp_path, "echo $$ > pid; exec sleep 300"))
        finally:
            tidied.append("long")

    def wrong() -> Track[int]:
        yield command(tmp_path, "until [ -s pid ]; do sleep 0.05; done")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_tracks([long(), wrong()])
    assert tidied == ["long"]
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_command_is_watched_to_its_end(tmp_path: Path) -> None:
    """What it says last must be heard too."""
    heard = []
    file = tmp_path / "said"

    def track() -> Track[int]:
        asked = command(tmp_path, f"printf last > {file}")
        return (
            yield Command(
                argv=asked.argv,
                folder=asked.folder,
                env=asked.env,
                log=asked.log,
                watch=lambda: heard.append(file.read_text() if file.exists() else ""),
            )
        )

    assert run_tracks([track()]) == [0]
    assert heard[-1] == "last"
