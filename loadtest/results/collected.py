"""Put what the workers of a load generator left into one run folder."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from fleet.errors import ConfigError, LoadError
from loadtest.results.records import (
    FIGURES_FILE,
    GENERATOR_FILE,
    REQUESTS_FILE,
    read_generator,
)
from loadtest.results.run_folder import WORKER_FOLDERS
from loadtest.results.search_file import SEARCH_FILE
from loadtest.results.server_truth import SERVER_FILE
from loadtest.results.workers_file import WORKERS_FILE
from loadtest.settings import PLAYED_FILE, SETTINGS_FILE

# Run in a pod: folder of the results, settings file. Pods have Python, and perhaps no tar.
IN_POD = """\
import os, sys, tarfile
results, settings = sys.argv[1:3]
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz", dereference=True) as archive:
    archive.add(settings, "settings.json")
    if os.path.isdir(results):
        archive.add(results, ".")
"""
_OF_WORKER = (REQUESTS_FILE, GENERATOR_FILE, FIGURES_FILE, PLAYED_FILE)
_OF_MASTER = (SETTINGS_FILE, SERVER_FILE, WORKERS_FILE, SEARCH_FILE)
_WANTED = re.compile(
    rf"(worker-\d{{1,4}}/)?({'|'.join(map(re.escape, _OF_WORKER))})"
    rf"|{'|'.join(map(re.escape, _OF_MASTER))}"
)
# Workers prepare for as long before they begin; what began earlier is of an earlier test.
_SAME_TEST = timedelta(seconds=900)


def in_pod_command(results: str, settings: str) -> Sequence[str]:
    """Give the command that prints a worker's files as a tar archive."""
    return ["python3", "-c", IN_POD, results, settings]


def unpack(archive: BinaryIO, folder: Path, *, where: str) -> None:
    """Take the files of a run out of an archive, and nothing else that a pod may have put there."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=archive, mode="r|gz") as members:
            for member in members:
                name = str(PurePosixPath(member.name))
                content = members.extractfile(member) if member.isfile() else None
                if content is not None and _WANTED.fullmatch(name):
                    target = folder / name
                    target.parent.mkdir(exist_ok=True)
                    with target.open("wb") as file:
                        while chunk := content.read(io.DEFAULT_BUFFER_SIZE * 16):
                            file.write(chunk)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise LoadError(
            f"{where}: its results are not readable ({error}). Collect them again."
        ) from error


def drop_earlier_tests(folder: Path) -> tuple[str, ...]:
    """Remove parts of an earlier test that had more workers; name them."""
    began = {
        part: datetime.fromisoformat(read_generator(part / GENERATOR_FILE).started_at)
        for part in (folder, *folder.glob(WORKER_FOLDERS))
        if (part / GENERATOR_FILE).exists()
    }
    if not began:
        raise ConfigError(
            f"{folder}: no worker has ended a test yet. "
            "Wait for the end of the load, or end it: k3fleet loadtest stop"
        )
    latest = max(began.values())
    old = [part for part, at in began.items() if latest - at > _SAME_TEST]
    for part in old:
        for name in _OF_WORKER:
            (part / name).unlink(missing_ok=True)
    return tuple(sorted(part.name for part in old))
