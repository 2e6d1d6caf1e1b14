"""Find the logs of a lab in its work folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.processes import log_tail


def read_logs(work_dir: Path, name: str, lines: int) -> Iterator[tuple[Path, str]]:
    """Yield the path and the last lines of every log whose file name contains `name`.

    Not those of Pulumi's own plugins, in its home folder: they are compressed.
    """
    folder = work_dir / "lab"
    for path in sorted(folder.rglob("*.log")):
        ours = "home" not in path.relative_to(folder).parts
        if ours and name in path.name and (text := log_tail(path, lines)):
            yield path, text
