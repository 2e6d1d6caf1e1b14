"""Read all that a run left: what was asked, whom it was sent to, and what came back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigError, LoadError
from loadtest.results.records import Generator, Record
from loadtest.results.run_facts import RunFacts, read_facts
from loadtest.results.run_folder import RunFiles, read_run
from loadtest.results.workers_file import read_workers
from loadtest.settings import PLAYED_FILE, SETTINGS_FILE, LoadSettings, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """Hold what a run left."""

    path: Path
    settings: LoadSettings
    facts: RunFacts
    files: RunFiles
    faults: tuple[str, ...] = ()
    """Why it is no whole run, as its master says: workers that were lost."""

    @property
    def records(self) -> tuple[Record, ...]:
        """Give the requests, by the time of sending."""
        return self.files.records

    @property
    def generator(self) -> Generator:
        """Give what the generator says about itself, all workers of it together."""
        return self.files.generator


def read_saved(path: Path) -> SavedRun:
    """Read a run folder; raises ConfigError that names the file that is missing or damaged."""
    if not path.is_dir():
        raise ConfigError(f"{path}: is no folder. Give the folder of a load test.")
    file = path / PLAYED_FILE  # the form of the page may have changed what the file asked
    if not file.exists():
        file = path / SETTINGS_FILE
    if not file.exists():
        raise ConfigError(
            f"{file}: is missing, so nobody knows what was sent. Give the folder of a load test."
        )
    settings = read_settings(file)
    try:
        files, workers = read_run(path), read_workers(path)
    except LoadError as error:  # to a reader of saved files a damaged one is bad input
        raise ConfigError(str(error)) from error
    return SavedRun(
        path=path,
        settings=settings,
        facts=read_facts(path),
        files=files,
        faults=tuple(workers.faults) if workers else (),
    )


def make_new(folder: Path) -> None:
    """Make the folder of a run; raises ConfigError where it cannot be, or two runs would mix."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        used = any(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}. Give a folder that can be written: --out DIR"
        ) from error
    if used:
        raise ConfigError(
            f"{folder}: is not empty, and results of two runs would mix. Give another --out."
        )
