"""Start k3fleet: find the command, run it, turn errors into messages and exit codes.

A command's module is imported only when that command runs, so that
`k3fleet plan` never waits for Pulumi, Locust or Dynamo to load.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence

import click

from cli.lazy import LazyCommand, LazyGroup, ReaderGoneError
from cli.plain import plain
from fleet.errors import EXIT_CONFIG, EXIT_GO, ConfigError, FleetError

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE
EXIT_BUG = 70  # EX_SOFTWARE; Python's own 1 would read as no-go
# The user's folder is not to be written or entered, or is no folder.
_NOT_OURS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
)

COMMANDS: Mapping[str, LazyCommand] = {
    "plan": LazyCommand("cli.plan:plan", "Show what would run where. Changes nothing."),
    "render": LazyCommand("cli.render:render", "Write the Kubernetes manifests as files."),
    "lint": LazyCommand("cli.lint:lint", "Find mistakes in manifests, with reason and fix."),
    "flags": LazyCommand("cli.flags:flags", "Make and list the tables of engine flags."),
    "config": LazyCommand("cli.config:config", "Check what makes clusters, without Pulumi."),
    "release": LazyCommand("cli.release:release", "See, make, compare and check releases."),
    "rollout": LazyCommand("cli.rollout:rollout", "Bring a release out in waves, and back."),
    "rollback": LazyCommand("cli.rollout_drive:rollback", "Bring the latest rollout back."),
    "racks": LazyCommand("cli.racks:racks", "See, check, label and drain racks that exist."),
    "heal": LazyCommand("cli.heal:heal", "Bring replicas off nodes that are ill, and back."),
    "traffic": LazyCommand("cli.traffic:traffic", "See what a profile sends; drain a region."),
    "history": LazyCommand("cli.rollout_history:history", "List the rollouts of a fleet."),
    "rehearse": LazyCommand(
        "cli.rehearse:rehearse", "Launch on this machine and judge: go or no-go."
    ),
    "lab": LazyCommand("cli.lab:lab", "Keep the rehearsal's lab up for work by hand."),
    "weights": LazyCommand("cli.weights:weights", "Keep every region's bucket of weights right."),
    "loadtest": LazyCommand(
        "cli.loadtest:loadtest", "Send agents' traffic, judge it, compare runs."
    ),
    "bootstrap": LazyCommand(
        "cli.bootstrap:bootstrap", "Make the bucket and the key of Pulumi's state."
    ),
    "up": LazyCommand("cli.provision:up", "Bring a fleet's stacks up to its file."),
    "preview": LazyCommand("cli.provision:preview", "Show what `up` would do. Changes nothing."),
    "destroy": LazyCommand("cli.provision:destroy", "Take stacks down, but what is protected."),
    "refresh": LazyCommand("cli.provision_state:refresh", "Read stacks again from what is there."),
    "outputs": LazyCommand("cli.provision_state:outputs", "Show what the stacks left."),
    "unlock": LazyCommand("cli.provision_state:unlock", "Remove the locks of dead updates."),
    "capacity": LazyCommand("cli.capacity:capacity", "Find, buy, watch and extend racks."),
    "doctor": LazyCommand("cli.doctor:doctor", "Check the lab's tools; see what clouds promise."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="k3fleet", prog_name="k3fleet")
def root() -> None:
    """Launch and keep running Kimi K3 on GB300 NVL72 racks.

    \b
    Example:
        k3fleet plan fleets/demo.yaml
        k3fleet rehearse fleets/demo.yaml

    \b
    Exit codes:
        0 done or go, 1 no-go or findings, 2 could not be judged, 3 usage or configuration,
        4 a disk that is full or not to be written, 5 a tool is missing, 6 the lab, 7 applying,
        8 the load generator, 9 another process does it already, 10 Pulumi's state, 11 a cluster
        that is away, does not let us in, or is another one, 12 a change that was not allowed,
        13 credentials: none, not valid, not allowed to, or of another account, 14 an object
        store, 15 wrong weights, 16 a cloud that is away, 17 nothing was bought, 18 a purchase
        whose outcome is not known, 70 a bug in k3fleet (with a traceback), 130 interrupted
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.stderr is None:  # the caller closed it; what we open next must not take its number
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        outcome = root.main(args=argv, prog_name="k3fleet", standalone_mode=False)
        if sys.stdout is not None:  # it is None when the caller closed it
            sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:
        return _report(error)
    return outcome if isinstance(outcome, int) else EXIT_GO


def _report(error: BaseException) -> int:
    """Say what happened and choose the exit code; a bug keeps its traceback."""
    match error:
        case click.ClickException():
            shown = io.StringIO()
            error.show(file=shown)
            for line in shown.getvalue().rstrip("\n").split("\n"):
                _say(line)
            code = EXIT_CONFIG
        case FleetError():
            _show(error)
            code = error.exit_code
        case KeyboardInterrupt() | click.Abort():
            _say("interrupted")
            # click turns the interrupt into its Abort; the signal's own code is in the cause.
            code = getattr(error.__cause__ or error, "exit_code", EXIT_INTERRUPTED)
        case ReaderGoneError() | BrokenPipeError():  # `k3fleet plan FILE | head -1`
            _drop_output()
            code = EXIT_BROKEN_PIPE
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            where = error.filename or "output"
            _say(f"error: {where}: {error.strerror}. Free some space and retry.")
            _drop_output()
            code = FleetError.exit_code
        case OSError(errno=number, filename=str(where)) if number in _NOT_OURS:
            _say(f"error: {where}: {error.strerror}. Give a place that you may write to.")
            code = FleetError.exit_code
        case _:
            traceback.print_exception(error)
            code = EXIT_BUG
    return code


def _drop_output() -> None:
    """Let go of what could not be written: Python would try again at its end, and exit with 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _show(error: FleetError) -> None:
    own_lines = isinstance(error, ConfigError) and bool(error.problems)
    for number, line in enumerate(str(error).split("\n")):
        # Only what has a line of its own starts like one: a value may hold a newline.
        _say(f"error: {line}" if own_lines or not number else f"       {line}")
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        _say(f"{len(error.problems)} problems found, nothing was started.")


def _say(line: str) -> None:
    """Write to stderr; when that is gone or full, the exit code still tells."""
    with contextlib.suppress(OSError):
        click.echo(plain(line), err=True)


if __name__ == "__main__":
    sys.exit(main())
