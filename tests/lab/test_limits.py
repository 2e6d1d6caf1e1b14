"""What cannot be rehearsed is said before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from lab.limits import require_rehearsable

ROOT = Path(__file__).parents[2]
FLEET = """\
apiVersion: k3fleet/v1
name: demo
{settings}
regions: [{{name: us-east, racks: [{{id: use1-r01}}]}}]
"""


def fleet(folder: Path, settings: str) -> Fleet:
    path = folder / "fleet.yaml"
    path.write_text(FLEET.format(settings=settings))
    return load_fleet(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("release: vllm-tp8\nbackend: dgd", "Rehearse a copy with backend: lws"),
    ],
)
def test_what_the_lab_has_no_stand_in_for_is_refused(
    tmp_path: Path, settings: str, said: str
) -> None:
    """A rehearsal of something else than the launch would give a verdict about nothing."""
    with pytest.raises(ConfigError, match=said):
        require_rehearsable(fleet(tmp_path, settings), path="")


def test_the_demo_can_be_rehearsed() -> None:
    """The first thing that anybody does."""
    require_rehearsable(load_fleet(ROOT / "fleets/demo.yaml"), path="")


def test_split_releases_can_be_rehearsed(tmp_path: Path) -> None:
    """A mocker does one of the two jobs when it is told so."""
    require_rehearsable(fleet(tmp_path, "release: sglang-pd-2p1d"), path="")
