"""One process of a working copy at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleet.errors import BusyError
from infra.provision.claim import FILE, claimed

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_the_second_is_told_about_the_first(tmp_path: Path) -> None:
    """What it does, who it is, and for how long."""
    folder = tmp_path / "serving-us-east"
    with claimed(folder, "k3fleet up", "ann", NOW):
        later = NOW + timedelta(minutes=3)
        with (
            pytest.raises(
                BusyError, match=r"serving-us-east: in use by `k3fleet up`: .*ann, for 3m"
            ),
            claimed(folder, "k3fleet preview", "bob", later),
        ):
            pass
    with claimed(folder, "k3fleet preview", "bob", NOW):  # it has ended
        pass


def test_a_holder_that_is_just_writing_its_name_is_busy_too(tmp_path: Path) -> None:
    """Not a traceback."""
    with claimed(tmp_path, "k3fleet up", "ann", NOW):
        (tmp_path / FILE).write_text("")
        with (
            pytest.raises(BusyError, match="another process"),
            claimed(tmp_path, "k3fleet up", "bob", NOW),
        ):
            pass
