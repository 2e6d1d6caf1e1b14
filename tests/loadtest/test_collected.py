"""Claims about bringing home what workers in a cluster wrote."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import make_settings, write_part

from fleet.errors import ConfigError, LoadError
from loadtest.results.collected import drop_earlier_tests, in_pod_command, unpack
from loadtest.results.saved_run import read_saved
from loadtest.settings import write_settings

Make = Callable[..., Any]


def printed_in_pod(results: Path, settings: Path) -> io.BytesIO:
    """Run the command that a pod runs, with this Python."""
    _, *rest = in_pod_command(str(results), str(settings))
    done = subprocess.run([sys.executable, *rest], capture_output=True, check=True)
    return io.BytesIO(done.stdout)


def test_what_two_pods_wrote_becomes_one_run(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Each worker pod has its own disk; settings are mounted through links, as ConfigMaps are."""
    real = write_settings(make_settings(tmp_path / "mount"))
    link = tmp_path / "settings.json"
    link.symlink_to(real)
    home = tmp_path / "home"
    for index in (0, 1):
        results = tmp_path / f"pod-{index}"
        write_part(results / f"worker-{index}", [make_record(turn=index + 1)], make_generator())
        unpack(printed_in_pod(results, link), home, where=f"pod-{index}")
    assert drop_earlier_tests(home) == ()
    run = read_saved(home)
    assert sorted(record.turn for record in run.records) == [1, 2]
    assert run.settings.users == 2


def test_an_archive_cannot_leave_its_folder(tmp_path: Path) -> None:
    """What a pod prints is not trusted."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("../evil", "/evil", "worker-0/../../evil", "worker-0/notes.txt", "run.json"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("worker-0/requests.jsonl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    out.seek(0)
    unpack(out, tmp_path / "home", where="pod")
    assert list((tmp_path / "home").rglob("*")) == []
    assert not (tmp_path / "evil").exists()


def test_a_broken_archive_names_its_pod(tmp_path: Path) -> None:
    """The connection may break in the middle."""
    with pytest.raises(LoadError, match="pod-3: its results are not readable"):
        unpack(io.BytesIO(b"\x1f\x8b broken"), tmp_path / "home", where="pod-3")


def test_parts_of_an_earlier_test_are_left_out(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """A claim keeps the files of a test that had more workers."""
    for index, hour in enumerate((12, 12, 9)):
        began = make_generator(started_at=f"2026-01-01T{hour:02}:00:0{index}.000+00:00")
        write_part(tmp_path / f"worker-{index}", [make_record()], began)
    assert drop_earlier_tests(tmp_path) == ("worker-2",)
    write_settings(make_settings(tmp_path))
    assert len(read_saved(tmp_path).records) == 2


def test_a_load_that_still_runs_cannot_be_judged(tmp_path: Path, make_record: Make) -> None:
    """Its workers have not said how they did."""
    write_part(tmp_path / "worker-0", [make_record()], None)
    with pytest.raises(ConfigError, match="no worker has ended a test yet"):
        drop_earlier_tests(tmp_path)
