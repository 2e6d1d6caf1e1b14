"""What surrounds a command is wrong: streams that are closed, folders that cannot be written."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest
from provision_place import K3FLEET, Place


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        ("up", "<&-", 3),
        ("preview", "2>&-", 0),
        ("preview", ">&- 2>&- <&-", 0),
        ("preview", "> /dev/full", 4),
    ],
)
def test_a_stream_that_is_gone_is_no_bug(place: Place, words: str, closed: str, code: int) -> None:
    """Daemons and night jobs start programs so; the exit code is all that is left to tell."""
    line = f"{K3FLEET} {words} {place.fleet} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOTDIR])
def test_a_folder_that_cannot_be_written_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Root may write everywhere, so the refusal is made up."""

    def refuse(self: Path, *_args: object, **_options: object) -> None:
        raise OSError(number, "refused", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert place.run("preview") == 4
    assert "platform-us-east: refused. Give a place that you may write to." in place.err


def test_a_work_folder_below_a_file_is_named(place: Place) -> None:
    """A slip of the keyboard: the parent is a file."""
    assert place.run("preview", "--work-dir", str(place.fleet / "work")) == 4
    assert str(place.fleet) in place.err


def test_a_work_folder_where_none_can_be_made_is_named(place: Place) -> None:
    """The kernel's own trees say that they are not there."""
    assert place.run("preview", "--work-dir", "/proc/nope") == 4
    assert "/proc/nope/stacks/platform-us-east: no folder can be made there" in place.err


@pytest.mark.parametrize("content", ["config: []", "config: {1: 2}", "[" * 5000, "\udcff"])
def test_a_stack_file_that_is_none_is_named(place: Place, content: str) -> None:
    """Somebody's editor, or a merge, has spoilt it."""
    assert place.run("preview") == 0
    file = place.stacks / "platform-us-east/Pulumi.platform-us-east.yaml"
    file.write_bytes(content.encode(errors="surrogateescape"))
    assert place.run("preview") == 3
    assert "cannot be read as a stack configuration" in place.err


def test_a_serial_that_is_no_number_is_named(place: Place) -> None:
    """It says which assignment of releases is the newest."""
    assert place.run("up", "--yes") == 0
    place.config("serving-us-east", serial="soon")
    assert place.run("preview") == 3
    assert "serial: expected a whole number" in place.err


def test_a_pulumi_that_cannot_be_started_is_a_tool_that_is_missing(place: Place) -> None:
    """It was built for another machine."""
    (place.pulumi.bin / "pulumi").write_bytes(b"\x7fELF")
    assert place.run("preview") == 5
    assert "cannot be started" in place.err
