"""What `k3fleet lab logs` shows."""

from __future__ import annotations

from pathlib import Path

from lab.logs import read_logs


def test_logs_of_plugins_are_left_out_wherever_the_work_folder_is(tmp_path: Path) -> None:
    """They are compressed, and would reach the terminal as they are."""
    work = tmp_path / "home" / "someone"
    ours = work / "lab" / "logs" / "us-east-gateway.log"
    theirs = work / "lab" / "pulumi" / "serving-us-east" / "home" / "logs" / "resource.log"
    for path in (ours, theirs):
        path.parent.mkdir(parents=True)
        path.write_text("one\ntwo\n")
    assert list(read_logs(work, "", 1)) == [(ours, "two")]
    assert list(read_logs(work, "frontend", 1)) == []
