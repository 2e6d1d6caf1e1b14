"""Keep the results of an earlier run in the same folder: nothing that was written is lost."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from loadtest.results.records import FIGURES_FILE, GENERATOR_FILE, REQUESTS_FILE
from loadtest.results.search_file import SEARCH_FILE
from loadtest.results.server_truth import SERVER_FILE
from loadtest.settings import PLAYED_FILE

_RESULTS = (
    REQUESTS_FILE, GENERATOR_FILE, FIGURES_FILE, SERVER_FILE, SEARCH_FILE, PLAYED_FILE,
)  # fmt: skip


def keep_earlier(out_dir: Path) -> None:
    """Move the results of an earlier run into a folder of their own."""
    requests = out_dir / REQUESTS_FILE
    if requests.exists() and requests.stat().st_size:
        _move(out_dir, [out_dir / name for name in _RESULTS])


def keep_other_workers(out_dir: Path, playing: Collection[str]) -> None:
    """Move the folders of workers that an earlier run had and this one has not.

    Whoever judges the folder would take them for a part of this run.
    """
    others = [part for part in sorted(out_dir.glob("worker-*")) if part.name not in playing]
    if others:
        _move(out_dir, others)


def _move(out_dir: Path, items: Collection[Path]) -> None:
    number = 1
    while (earlier := out_dir / f"earlier-{number}").exists():
        number += 1
    earlier.mkdir()
    for item in items:
        if item.exists():
            shutil.move(item, earlier / item.name)
