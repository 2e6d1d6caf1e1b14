"""A lab deletes and makes anew what is in its folder, so the folder has to be its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from lab.work_folder import claim, mark


def test_a_folder_with_other_things_is_refused(tmp_path: Path):
    """`--work-dir .` in a clone must not delete the project's own `lab`."""
    (tmp_path / "lab").mkdir()
    with pytest.raises(ConfigError, match="was not made by k3fleet"):
        claim(tmp_path)
    assert (tmp_path / "lab").is_dir()


def test_a_folder_in_use_names_its_holder(tmp_path: Path):
    """Two runs in one folder would end each other's processes."""
    with claim(tmp_path / "work"), pytest.raises(ConfigError, match=f"process {os.getpid()}"):
        claim(tmp_path / "work")


def test_a_folder_is_free_again_after_a_run(tmp_path: Path):
    """The lock dies with its holder; the mark stays."""
    claim(tmp_path / "work").close()
    (tmp_path / "work" / "lab").mkdir()
    claim(tmp_path / "work").close()


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path: Path):
    """A path below a file is a typo, not a bug."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--work-dir"):
        claim(tmp_path / "file" / "work")


def test_a_marked_folder_is_one_that_a_lab_takes(tmp_path: Path):
    """Receipts are in it before the first rehearsal, and stay beside it."""
    mark(tmp_path / "work")
    (tmp_path / "work" / "capacity").mkdir()
    claim(tmp_path / "work").close()


def test_marking_claims_no_folder_of_others(tmp_path: Path):
    """A lab would delete what is in it."""
    (tmp_path / "lab").mkdir()
    mark(tmp_path)
    with pytest.raises(ConfigError, match="was not made by k3fleet"):
        claim(tmp_path)
