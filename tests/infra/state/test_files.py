"""State in files, as updates that were killed leave it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.state.files import FileState

WHOLE = b'{"user.content_type": "text/plain", "user.metadata": null, "md5": "AAAA"}\n'


@pytest.fixture
def description(tmp_path: Path) -> Path:
    """Give the place of what describes a checkpoint, in a state that was used before."""
    FileState.below(tmp_path).prepare()
    file = tmp_path / "state/.pulumi/stacks/k3fleet-serving/serving-us-east.json.attrs"
    file.parent.mkdir(parents=True)
    file.with_suffix("").write_text("{}")
    return file


@pytest.mark.parametrize("torn", [b"", WHOLE[:20], b"\xff", b"[" * 9000])
def test_a_torn_description_is_taken_away(tmp_path: Path, description: Path, torn: bytes) -> None:
    """Pulumi loads a checkpoint without one, and none with a torn one."""
    description.write_bytes(torn)
    FileState.below(tmp_path).prepare()
    assert not description.exists()
    assert description.with_suffix("").exists()


def test_a_whole_description_stays(tmp_path: Path, description: Path) -> None:
    """It is Pulumi's own."""
    description.write_bytes(WHOLE)
    FileState.below(tmp_path).prepare()
    assert description.read_bytes() == WHOLE
