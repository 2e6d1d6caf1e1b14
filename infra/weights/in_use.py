"""Establish which releases are in use. What may be deleted follows from it: guesses do not count.

Three sources, all of the working copy: the fleet file, the configuration of every region's serving
stack (its assignment and the releases that it knows), and the records of the latest rollouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from fleet.errors import ConfigError
from fleet.load import Fleet, load_release
from fleet.release import Release
from fleet.rollout.record import Started
from fleet.rollout.state import OVER
from infra.rollout.journal import Journal
from infra.rollout.stack import FileConfig
from infra.settings import from_config

# Where `up` and the lab keep them, below the work folder.
_STACK_FOLDERS = ("pulumi", "lab/pulumi")
_RECORD_FOLDERS = ("rollouts", "lab/rollouts")


def releases_in_use(
    fleet: Fleet, work_dir: Path, extra: Iterable[str], keep_previous: int
) -> Mapping[str, Release]:
    """Give the releases that may not lose their weights, by what names them.

    `extra`: presets or files that somebody names, for example the next candidate.
    `keep_previous`: how many finished rollouts somebody may still want to take back.
    Raises ConfigError where a region's stack or a release of it cannot be read.
    """
    found = {f"{fleet.release.name} (fleet file)": fleet.release}
    for region in fleet.spec.regions:
        found |= _of_stack(fleet, region.name, _stack_config(work_dir, region.name))
    found |= _of_records(fleet, work_dir, keep_previous)
    found |= named_releases(extra)
    return found


def named_releases(names: Iterable[str]) -> Mapping[str, Release]:
    """Load releases that somebody names on the command line."""
    return {f"{name} (--release)": load_release(name, beside=Path()) for name in names}


def _stack_config(work_dir: Path, region: str) -> Path:
    stack = f"serving-{region}"
    for folder in _STACK_FOLDERS:
        file = work_dir / folder / stack / f"Pulumi.{stack}.yaml"
        if file.exists():
            return file
    raise ConfigError(
        f"{work_dir}: which releases run in {region} is not known here: there is no "
        f"configuration of the stack {stack}. Give --work-dir of the working copy that deploys it, "
        "or get it with `k3fleet rollout sync`. Nothing was deleted."
    )


def _of_stack(fleet: Fleet, region: str, file: Path) -> Mapping[str, Release]:
    options = from_config(FileConfig.read(file)).options
    known = {**options.releases, fleet.release_id: fleet.release}
    unknown = sorted(set(options.assignment.values()) - set(known))
    if unknown:
        raise ConfigError(
            f"{file}: assigns the release {unknown[0]}, whose file is not known here. "
            "Add it to `releases` there. Nothing was deleted."
        )
    return {f"{name} ({region})": release for name, release in options.releases.items()}


def _of_records(fleet: Fleet, work_dir: Path, keep_previous: int) -> Mapping[str, Release]:
    """Load the releases of rollouts: those that are not over, and the latest of the others."""
    found: dict[str, Release] = {}
    for folder in _RECORD_FOLDERS:
        records = sorted((work_dir / folder).glob("*.jsonl"), reverse=True)
        for number, file in enumerate(records):
            journal = Journal(file)
            started = next((e for e in journal.read() if isinstance(e, Started)), None)
            if started is not None and (
                number < keep_previous or journal.state().status not in OVER
            ):
                names = {started.old, started.new} & started.releases.keys()
                found |= {
                    f"{id_} (rollout {file.stem})": load_release(
                        started.releases[id_], beside=fleet.path
                    )
                    for id_ in sorted(names)
                }
    return found
