"""Apply one layer of one region with the real Pulumi command line.

The command line and not the Automation API: that one starts four processes per
update, prints secrets of the state into its results, dies on SIGTERM without
its child, and needs a second way of running the program that `pulumi up` by
hand does not use. Here both ways are the same program and the same state.

Everything is written below the work folder: state, stack files, plugin home,
logs. The source tree is only read.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from fleet.errors import ApplyError, ToolError
from infra.options import Layer
from infra.settings import Settings, to_config
from infra.stack_events import CHANGES_NOTHING, Outcome, Touched, log_errors, read_outcome
from infra.stack_locks import release_stale_locks
from infra.stack_process import Command, run_all

Action = Literal["up", "preview", "destroy"]

PROGRAMS = Path(__file__).resolve().parent
_LOG_TAIL_BYTES = 64 * 1024
_SHOWN_ERRORS = 5

_FLAGS: Mapping[Action, tuple[str, ...]] = {
    "up": ("--yes", "--skip-preview"),
    "preview": (),
    # What is protected outlives a teardown: the namespace and the racks' domains.
    "destroy": ("--yes", "--skip-preview", "--exclude-protected"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpResult:
    """What one run changed."""

    stack: str
    changes: Mapping[str, int]  # create, update, delete, replace, same … -> resources
    outputs: Mapping[str, Any]
    seconds: float
    touched: tuple[Touched, ...] = ()  # what changed, or would

    @property
    def changed(self) -> int:
        """Count the resources that did not stay the same."""
        return sum(n for operation, n in self.changes.items() if operation not in CHANGES_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRunner:
    """One stack: a layer of a region, its settings, and where its files are."""

    layer: Layer
    settings: Settings
    work_dir: Path
    env: Mapping[str, str]  # the caller's environment, with the tools on its PATH
    say: Callable[[str], None] = lambda _line: None
    # State and passphrase, where another working copy keeps them; None: in the work folder.
    backend: Path | None = None
    # Take back what somebody else's client has set: the API server calls it a conflict.
    force: bool = False

    @property
    def root(self) -> Path:
        """Where Pulumi's state and its passphrase are."""
        return (self.backend or self.work_dir).resolve()

    @property
    def project(self) -> str:
        """Name of the Pulumi project; the same as in `infra/<layer>/Pulumi.yaml`."""
        return f"k3fleet-{self.layer}"

    @property
    def stack(self) -> str:
        """Name of the stack."""
        return f"{self.layer}-{self.settings.region}"

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
        """What Pulumi printed, last run."""
        return self.folder / "pulumi.log"

    def up(self, *, refresh: bool = False) -> UpResult:
        """Make the cluster what the fleet file says."""
        return run_together([self], "up", refresh=refresh)[0]

    def preview(self, *, refresh: bool = False) -> UpResult:
        """Say what `up` would change."""
        return run_together([self], "preview", refresh=refresh)[0]

    def destroy(self) -> UpResult:
        """Remove everything that is not protected."""
        return run_together([self], "destroy")[0]

    def outputs(self) -> Mapping[str, Any]:
        """Read what the stack's last update left, also while another one runs."""
        self._write_files()
        self._run_one("stack", "output", "--json", "--stack", self.stack)
        text = self.log.read_text(encoding="utf-8", errors="replace")
        try:
            found: Mapping[str, Any] = json.loads(text[text.index("{") :])
        except ValueError as error:
            raise ApplyError(
                f"{self.stack}: its outputs cannot be read. See {self.log}, then run again."
            ) from error
        return found

    def pulumi_env(self) -> dict[str, str]:
        """Give the variables with which `pulumi` by hand finds this stack."""
        return {
            "PULUMI_BACKEND_URL": (self.root / "state").as_uri(),
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.root / "passphrase"),
            "PULUMI_PYTHON_CMD": sys.executable,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }

    def prepare(self) -> None:
        """Write the stack's files, remove dead locks, and create the stack if it is new."""
        self._write_files()
        self.write_config()
        self.unlock()
        if not self._state("stacks", f"{self.stack}.json").exists():
            self._run_one("stack", "init", self.stack, "--no-select")

    def unlock(self) -> None:
        """Remove the locks of dead updates; raise ApplyError where one lives."""
        for lock in release_stale_locks(self._state("locks", self.stack)):
            self.unclean.touch()
            self.say(f"{self.stack}: removed the lock of a dead update ({lock})")

    @property
    def unclean(self) -> Path:
        """Marker of a run that did not end well: the state may then say less than is there."""
        return self.folder / "unclean"

    @property
    def events(self) -> Path:
        """What the engine said, last run."""
        return self.folder / "events.json"

    def command(self, *words: str) -> Command:
        """Build a Pulumi command for this stack."""
        base = {k: v for k, v in self.env.items() if not k.startswith("PULUMI_")}
        base.pop("KUBECONFIG", None)  # the stack names its cluster itself
        path = base.get("PATH", os.defpath)
        pulumi = shutil.which("pulumi", path=path)
        if pulumi is None:
            raise ToolError("pulumi: not found on PATH. Run `k3fleet doctor` to see what to do.")
        return Command(
            argv=(pulumi, *words, "--non-interactive", "--color", "never"),
            folder=self.folder,
            # The event log is a debugging flag of the command line.
            env={
                **base,
                **self.pulumi_env(),
                "PULUMI_DEBUG_COMMANDS": "true",
                "PULUMI_K8S_ENABLE_PATCH_FORCE": str(self.force).lower(),
            },
            log=self.log,
        )

    def _write_files(self) -> None:
        """Write what Pulumi needs to find the stack, but not what the stack is told."""
        for folder in (self.root / "state", self.folder / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        _write_passphrase(self.root / "passphrase")
        self._write_project()

    def _write_project(self) -> None:
        source = PROGRAMS / self.layer
        project = yaml.safe_load((source / "Pulumi.yaml").read_text(encoding="utf-8"))
        (self.folder / "Pulumi.yaml").write_text(
            yaml.safe_dump({**project, "main": str(source)}, sort_keys=False), encoding="utf-8"
        )

    def write_config(self) -> None:
        """Write the stack configuration, so that a kill leaves the old one or the new one."""
        known: dict[str, object] = {}
        if self.config_file.exists():  # Pulumi keeps the salt of its secrets there
            known = yaml.safe_load(self.config_file.read_text(encoding="utf-8")) or {}
        values = to_config(self.settings)
        known["config"] = {f"{self.project}:{key}": value for key, value in values.items()}
        draft = self.config_file.with_suffix(".draft")
        draft.write_text(yaml.safe_dump(known, sort_keys=False), encoding="utf-8")
        draft.replace(self.config_file)

    def _state(self, kind: str, name: str) -> Path:
        folder = self.root / "state" / ".pulumi" / kind
        return (folder / "organization" if kind == "locks" else folder) / self.project / name

    def _run_one(self, *words: str) -> None:
        command = self.command(*words)
        if code := run_all([command])[0]:
            raise _failure(self, " ".join(words[:2]), code, Outcome())


def run_together(
    runners: Sequence[StackRunner], action: Action, *, refresh: bool = False
) -> list[UpResult]:
    """Run one action on several stacks, each in a process of its own.

    After a run that did not end well, `up` refreshes first: a cancelled update
    otherwise says "unchanged" while the wrong version runs. Raises ApplyError
    that names every stack that failed; the others are finished.
    """
    for runner in runners:
        runner.prepare()
    started = time.monotonic()
    codes = run_all([_command(runner, action, refresh=refresh) for runner in runners])
    seconds = time.monotonic() - started
    results, failures = [], []
    for runner, code in zip(runners, codes, strict=True):
        outcome = read_outcome(runner.events)
        if code:
            failures.append(_failure(runner, action, code, outcome))
            continue
        if action != "preview":
            runner.unclean.unlink(missing_ok=True)
        results.append(
            UpResult(
                stack=runner.stack,
                changes=outcome.changes,
                outputs=outcome.outputs,
                seconds=seconds,
                touched=outcome.touched,
            )
        )
    if failures:
        raise ApplyError("\n".join(map(str, failures))) from failures[0]
    return results


def _command(runner: StackRunner, action: Action, *, refresh: bool) -> Command:
    runner.events.unlink(missing_ok=True)
    again = refresh or runner.unclean.exists()
    if action != "preview":
        runner.unclean.touch()
    return runner.command(
        action,
        *_FLAGS[action],
        *(("--refresh",) if again else ()),
        "--suppress-outputs",
        "--stack",
        runner.stack,
        "--config-file",
        str(runner.config_file),
        "--event-log",
        str(runner.events),
    )


def _failure(runner: StackRunner, action: str, code: int, outcome: Outcome) -> ApplyError:
    errors = outcome.errors or log_errors(_tail(runner.log))
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    shown = "; ".join(errors[:_SHOWN_ERRORS]) or f"pulumi {ended}"
    if len(errors) > _SHOWN_ERRORS:
        shown += f"; and {len(errors) - _SHOWN_ERRORS} more"
    return ApplyError(
        f"{runner.stack}: {action} failed: {shown.rstrip('.')}. Correct the cause and run again: "
        f"the next run compares with the cluster first. Whole log: {runner.log}"
    )


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")


def _write_passphrase(file: Path) -> None:
    """Make the key of the state once; nothing secret is in the state, but Pulumi wants one."""
    if file.exists():
        return
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as out:
        out.write(secrets.token_urlsafe(32))
