"""Apply one layer of one region with the real Pulumi command line.

The command line and not the Automation API: that one starts four processes per
update, prints secrets of the state into its results, dies on SIGTERM without
its child, and needs a second way of running the program that `pulumi up` by
hand does not use. Here both ways are the same program and the same state.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fleet.errors import ApplyError, FleetError, ToolError
from infra.outputs import Remembered, read_remembered
from infra.stack_events import CHANGES_NOTHING, Outcome, Touched, log_errors, read_outcome
from infra.stack_files import StackFiles
from infra.stack_process import Command, Track, run_tracks
from infra.stack_state import StackState, read_state
from infra.state.locks import release_stale_locks

Action = Literal["up", "preview", "destroy", "preview-destroy", "refresh"]

_SHOWN_ERRORS = 5
_EXISTS = "already exists"

_WORDS: Mapping[Action, tuple[str, ...]] = {
    "up": ("up", "--yes", "--skip-preview"),
    "preview": ("preview",),
    # What is protected outlives a teardown: the namespace and the racks' domains.
    "destroy": ("destroy", "--yes", "--skip-preview", "--exclude-protected"),
    "preview-destroy": ("destroy", "--preview-only", "--exclude-protected"),
    "refresh": ("refresh", "--yes", "--skip-preview"),
}
CHANGING: frozenset[Action] = frozenset({"up", "destroy", "refresh"})


class StackError(ApplyError):
    """A command of Pulumi failed; `outcome` is what it had said until then."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class UpResult:
    """What one run changed."""

    stack: str
    changes: Mapping[str, int]  # create, update, delete, replace, same … -> resources
    outputs: Mapping[str, Any]
    seconds: float
    touched: tuple[Touched, ...] = ()  # what changed, or would
    pending: bool = False  # an earlier update was cut off in the middle of an operation
    events: Path | None = None  # what the engine said, without secrets
    idle: bool = False  # of a preview: an update would change nothing at all

    @property
    def changed(self) -> int:
        """Count the resources that did not stay the same."""
        return sum(n for operation, n in self.changes.items() if operation not in CHANGES_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How an action is run."""

    refresh: bool = False  # compare with the cluster first
    words: tuple[str, ...] = ()  # more for the command line
    # Given the file that the engine writes its events to, gives what is called while it runs.
    watch: Callable[[Path], Callable[[], None]] = lambda _events: lambda: None


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRunner(StackFiles):
    """Runs Pulumi on one stack."""

    env: Mapping[str, str]  # the caller's environment, with the tools on its PATH
    say: Callable[[str], None] = lambda _line: None
    # Take back what somebody else's client has set: the API server calls it a conflict.
    force: bool = False
    # Let Pulumi fetch the plugin of a cloud that is not on PATH.
    fetches: bool = False
    now: Callable[[], datetime] = field(default=_now)

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
        return run_tracks([self.reading("output", "--json")])[0]

    def prepare(self) -> None:
        """Write the stack's files, remove dead locks, and create the stack if it is new."""
        run_tracks([self.preparing()])

    def unlock(self) -> None:
        """Remove the locks of dead updates; raise BusyError where one lives."""
        for lock in release_stale_locks(self.store, self.name, self.now()):
            self.unclean.touch()
            self.say(f"{self.stack}: removed the lock of a dead update ({lock.told(self.now())})")

    def pulumi_env(self) -> dict[str, str]:
        """Give the variables with which `pulumi` by hand finds this stack."""
        return {
            **self.store.variables(self.env),
            "PULUMI_BACKEND_URL": self.store.url,
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_PYTHON_CMD": sys.executable,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": str(not self.fetches).lower(),
        }

    def command(self, *words: str, watch: Callable[[], None] = lambda: None) -> Command:
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
            log=self.raw_log,
            watch=watch,
        )

    def preparing(self) -> Track[None]:
        """Do the work of `prepare` beside others."""
        self.write_files()
        self.write_config()
        self.unlock()
        exists = self.store.exists(self.name)
        if exists:
            return
        key = self.store.secrets_provider
        words = ("--secrets-provider", key) if key else ()
        code = yield from self._one("stack", "init", self.stack, "--no-select", *words)
        if code and not (exists is None and _EXISTS in self._logged()):
            raise self.failure("stack init", code, Outcome())

    def remembering(self) -> Track[Remembered]:
        """Read what the stack is asked before it is changed."""
        return read_remembered(self.stack, (yield from self.reading("output", "--json")))

    def exporting(self) -> Track[StackState]:
        """Read the stack's state."""
        return read_state(self.stack, (yield from self.reading("export")))

    def reading(self, *words: str) -> Track[Mapping[str, Any]]:
        """Read what a `pulumi stack` command answers in JSON; nothing is told to the stack."""
        self.write_files()
        code = yield from self._one("stack", *words, "--stack", self.stack)
        if code:
            raise self.failure(f"stack {words[0]}", code, Outcome())
        text = self._logged()
        try:
            found: Mapping[str, Any] = json.loads(text[text.index("{") :])
        except (ValueError, RecursionError) as error:
            raise ApplyError(
                f"{self.stack}: its {words[0]}s cannot be read. See {self.log}, then run again."
            ) from error
        return found

    def performing(self, action: Action, how: How) -> Track[UpResult]:
        """Run an action on a stack that is prepared; raise ApplyError when it fails.

        After a run that did not end well, `up` refreshes first: a cancelled update
        otherwise says "unchanged" while the wrong version runs.
        """
        again = action != "refresh" and (how.refresh or self.unclean.exists())
        if action in CHANGING:
            self.unclean.touch()
        started = time.monotonic()
        command = self.command(
            *_WORDS[action],
            *(("--refresh",) if again else ()),
            *how.words,
            *("--suppress-outputs", "--stack", self.stack),
            *("--config-file", str(self.config_file)),
            *("--event-log", str(self.raw_events)),
            watch=how.watch(self.raw_events),
        )
        try:
            code = yield command
        finally:
            self.keep_log()
            events = self.keep_events(action, self.now())
        outcome = read_outcome(events)
        if code:
            raise self.failure(action, code, outcome)
        if action in CHANGING:
            self.unclean.unlink(missing_ok=True)
        return UpResult(
            stack=self.stack,
            changes=outcome.changes,
            outputs=outcome.outputs,
            seconds=time.monotonic() - started,
            touched=outcome.touched,
            pending=outcome.pending,
            events=events,
            idle=outcome.idle,
        )

    def failure(self, action: str, code: int, outcome: Outcome) -> StackError:
        """Say why a command of Pulumi failed, without secrets."""
        errors = outcome.errors or log_errors(self._logged())
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        shown = "; ".join(errors[:_SHOWN_ERRORS]) or f"pulumi {ended}"
        if len(errors) > _SHOWN_ERRORS:
            shown += f"; and {len(errors) - _SHOWN_ERRORS} more"
        return StackError(
            f"{self.stack}: {action} failed: {shown.rstrip('.')}. Correct the cause and run "
            f"again: the next run compares with the cluster first. Whole log: {self.log}",
            outcome,
        )

    def letting_go(self, urn: str) -> Track[None]:
        """Take the protection of one object away."""
        words = ("state", "unprotect", urn, "--yes", "--stack", self.stack)
        if code := (yield from self._one(*words)):
            raise self.failure("state unprotect", code, Outcome())

    def _one(self, *words: str) -> Track[int]:
        try:
            return (yield self.command(*words))
        finally:
            self.keep_log()

    def _logged(self) -> str:
        if not self.log.exists():
            return ""
        return self.log.read_text(encoding="utf-8", errors="replace")


def run_together(
    runners: Sequence[StackRunner], action: Action, *, refresh: bool = False
) -> list[UpResult]:
    """Run one action on several stacks, each in a process of its own.

    Raises ApplyError that names every stack that failed; the others are finished.
    """
    ended = run_tracks([_trying(runner, action, How(refresh=refresh)) for runner in runners])
    failures = [one for one in ended if isinstance(one, FleetError)]
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ApplyError("\n".join(map(str, failures))) from failures[0]
    return [one for one in ended if isinstance(one, UpResult)]


def _trying(runner: StackRunner, action: Action, how: How) -> Track[UpResult | FleetError]:
    try:
        yield from runner.preparing()
        return (yield from runner.performing(action, how))
    except FleetError as error:
        return error
