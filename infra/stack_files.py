"""Lay out the files of one stack below the work folder.

Everything is written there: state, stack files, plugin home, logs, events. The
source tree is only read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import yaml

from infra.redaction import Redactor
from infra.settings import Settings, StackLayer, StackPlace, to_config
from infra.state.files import FileState
from infra.state.store import StackName, StateStore

PROGRAMS = Path(__file__).resolve().parent
KEPT_RUNS = 20  # of each stack
PLUGINS = "plugins"  # of all stacks of a work folder: one of a cloud weighs hundreds of megabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFiles:
    """One stack: a layer of a region or of the fleet, what it is told, and where its files are."""

    layer: StackLayer
    settings: Settings | StackPlace
    work_dir: Path
    # Where the state is, if it is not in the work folder.
    state: StateStore | None = None
    redactor: Redactor = field(default_factory=Redactor)
    programs: Path = PROGRAMS

    @property
    def store(self) -> StateStore:
        """Where Pulumi keeps the stack's state."""
        return self.state or FileState.below(self.work_dir)

    @property
    def project(self) -> str:
        """Name of the Pulumi project; the same as in `infra/<layer>/Pulumi.yaml`."""
        return f"k3fleet-{self.layer}"

    @property
    def stack(self) -> str:
        """Name of the stack."""
        return "-".join(filter(None, (self.layer, self.settings.region)))

    @property
    def name(self) -> StackName:
        """Name of the stack in the state."""
        return StackName(project=self.project, stack=self.stack)

    @property
    def folder(self) -> Path:
        """Folder of the stack's own files."""
        return self.work_dir.resolve() / self.stack

    @property
    def config_file(self) -> Path:
        """Stack configuration, for `pulumi --config-file` by hand."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    @property
    def log(self) -> Path:
        """What Pulumi printed, last run, without secrets."""
        return self.folder / "pulumi.log"

    @property
    def raw_log(self) -> Path:
        """What Pulumi prints while it runs."""
        return self.folder / "pulumi.raw"

    @property
    def raw_events(self) -> Path:
        """What the engine says while it runs."""
        return self.folder / "events.raw"

    @property
    def runs(self) -> Path:
        """Folder of what the engine said in the last runs, without secrets."""
        return self.folder / "runs"

    @property
    def unclean(self) -> Path:
        """Marker of a run that did not end well: the state may then say less than is there."""
        return self.folder / "unclean"

    def write_files(self) -> None:
        """Write what Pulumi needs to find the stack, but not what the stack is told."""
        self.store.prepare()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # the engine writes its events before we can look at them
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        shared = self.work_dir.resolve() / PLUGINS
        shared.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (home / "plugins").symlink_to(shared)
        for left in (self.raw_log, self.raw_events):  # of a run that was killed with us
            left.unlink(missing_ok=True)
        self._write_project()

    def _write_project(self) -> None:
        source = self.programs / self.layer
        project = yaml.safe_load((source / "Pulumi.yaml").read_text(encoding="utf-8"))
        (self.folder / "Pulumi.yaml").write_text(
            yaml.safe_dump({**project, "main": str(source)}, sort_keys=False), encoding="utf-8"
        )

    def write_config(self) -> None:
        """Write the stack configuration, so that a kill leaves the old one or the new one."""
        known: dict[str, object] = {}
        if self.config_file.exists():  # Pulumi keeps the salt of its secrets there
            known = yaml.safe_load(self.config_file.read_text(encoding="utf-8")) or {}
        if key := self.store.secrets_provider:
            known["secretsprovider"] = key
        values = to_config(self.settings)
        known["config"] = {f"{self.project}:{key}": value for key, value in values.items()}
        draft = self.config_file.with_suffix(".draft")
        draft.write_text(yaml.safe_dump(known, sort_keys=False), encoding="utf-8")
        draft.replace(self.config_file)

    def keep_log(self) -> None:
        """Keep what Pulumi printed, without secrets."""
        self._redact(self.raw_log, self.log)

    def keep_events(self, what: str, now: datetime) -> Path:
        """Keep what the engine said under the time of the run, and forget the oldest."""
        self.runs.mkdir(exist_ok=True)
        kept = self.runs / f"{now:%Y%m%dT%H%M%S.%fZ}-{what}.jsonl"
        self._redact(self.raw_events, kept)
        for old in sorted(self.runs.glob("*.jsonl"))[:-KEPT_RUNS]:
            old.unlink(missing_ok=True)
        return kept

    def _redact(self, raw: Path, kept: Path) -> None:
        if not raw.is_file():
            return
        with raw.open(encoding="utf-8", errors="replace") as lines:
            text = "".join(self._clean(lines))
        kept.write_text(text, encoding="utf-8")
        kept.chmod(0o600)
        raw.unlink(missing_ok=True)

    def _clean(self, lines: Iterator[str]) -> Iterator[str]:
        redactor = self.redactor.also(self.store.secrets())
        return (redactor.text(line) for line in lines)
