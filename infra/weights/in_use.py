"""Establish which releases are in use. What may be deleted follows from it: guesses do not count.

What is deployed says it (`deployed.py`); the working copy adds what it is about to deploy: its
fleet file, the configuration of every region's serving stack, and the records of its rollouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigError
from fleet.load import Fleet, load_release
from fleet.release import Release, release_id
from fleet.rollout.state import OVER, State
from infra.file_config import FileConfig
from infra.provision.ground import FOLDER
from infra.rollout.journal import Journal
from infra.rollout.stack import release_of
from infra.settings import from_config
from infra.weights.deployed import Deployed

# Where `up`, the lab and those who joined another's lab keep them, below the work folder.
_STACK_FOLDERS = (FOLDER, "lab/pulumi", "joined/*/pulumi")
_RECORD_FOLDERS = ("rollouts", "lab/rollouts", "joined/*/rollouts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What says which releases are in use."""

    fleet: Fleet
    work_dir: Path
    deployed: Mapping[str, Deployed]  # by region; empty where somebody vouches for what runs
    vouched: tuple[str, ...] = ()  # releases that somebody says are what is deployed
    extra: tuple[str, ...] = ()  # presets or files that somebody names: the next candidate
    keep_previous: int = 2  # rollouts that somebody may still want to take back

    def releases(self) -> Mapping[str, Release]:
        """Give the releases that may not lose their weights, by what names them.

        Raises ConfigError where a region's stack or a release of it cannot be read.
        """
        found = {f"{self.fleet.release.name} (fleet file)": self.fleet.release}
        found |= self._of_records()
        found |= named_releases(self.extra)
        found |= named_releases(self.vouched, "--assume-deployed")
        for region in self.fleet.spec.regions:
            found |= self._of_files(region.name)
        known = {release_id(release): release for release in found.values()}
        for name, deployed in self.deployed.items():
            for id_ in sorted(deployed.releases):
                found[f"{id_} (runs in {name})"] = known.get(id_) or self._recorded(id_, name)
        return found

    def _of_files(self, region: str) -> Mapping[str, Release]:
        found: dict[str, Release] = {}
        files = _stack_configs(self.work_dir, region)
        deployed = self.deployed.get(region)
        if not files and not self.vouched and not (deployed and deployed.is_up):
            raise ConfigError(
                f"{self.work_dir}: which releases run in {region} is not known here: there is "
                f"neither state nor configuration of the stack serving-{region}. Give --work-dir "
                "of the working copy that deploys it, name its state in the fleet file, or say "
                "which with --assume-deployed RELEASE. Nothing was deleted."
            )
        for file in files:
            found |= _of_stack(self.fleet, region, file)
        return found

    def _of_records(self) -> Mapping[str, Release]:
        """Load the releases of rollouts, here and in each cluster: the latest, and open ones."""
        kept = [
            (name, state.started)
            for one in self._rollouts()
            for number, (name, state) in enumerate(sorted(one.items(), reverse=True))
            if number < self.keep_previous or state.status not in OVER
        ]
        return {
            f"{id_} (rollout {name})": load_release(begun.releases[id_], beside=self.fleet.path)
            for name, begun in kept
            for id_ in sorted({begun.old, begun.new} & begun.releases.keys())
        }

    def _recorded(self, identity: str, region: str) -> Release:
        """Load a release that runs from where any rollout says it is."""
        sources = {
            id_: source
            for one in self._rollouts()
            for state in one.values()
            for id_, source in state.started.releases.items()
        }
        if identity not in sources:
            raise ConfigError(
                f"{region}: runs the release {identity}, whose file is not known here. Get the "
                "working copy that has it (`git pull`), or name the file with --release. "
                "Nothing was deleted."
            )
        return release_of(identity, sources, self.fleet.path)

    def _rollouts(self) -> Iterator[Mapping[str, State]]:
        """Give what came of each rollout, by its name: of each folder, and of each cluster."""
        for folder in _RECORD_FOLDERS:
            files = self.work_dir.glob(f"{folder}/*.jsonl")
            yield {file.stem: Journal(file).state() for file in files if Journal(file).read()}
        for region, deployed in self.deployed.items():
            yield {f"{number:04} in {region}": one for number, one in deployed.rollouts.items()}


def named_releases(names: Iterable[str], option: str = "--release") -> Mapping[str, Release]:
    """Load releases that somebody names on the command line."""
    return {f"{name} ({option})": load_release(name, beside=Path()) for name in names}


def _stack_configs(work_dir: Path, region: str) -> list[Path]:
    stack = f"serving-{region}"
    return [
        file
        for folder in _STACK_FOLDERS
        for file in sorted(work_dir.glob(f"{folder}/{stack}/Pulumi.{stack}.yaml"))
    ]


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
