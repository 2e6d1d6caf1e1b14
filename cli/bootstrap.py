"""`k3fleet bootstrap`: make the bucket and the key of Pulumi's state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from cli.confirm import YES, confirm
from cli.output import output_option, print_facts, print_json, print_line, print_table
from fleet.errors import EXIT_GO, EXIT_INVALID
from fleet.load import load_fleet
from fleet.spec import FleetSpec
from fleet.state_address import Backend
from infra.bootstrap.by_hand import by_hand, has_calls
from infra.bootstrap.calls import connect
from infra.bootstrap.run import carry_out, make_folder, missing_folder, survey
from infra.bootstrap.survey import Change


@click.command()
@click.argument("fleet_file", metavar="FLEET", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what is missing, and change nothing.")
@YES
@output_option
def bootstrap(fleet_file: Path, output: str, *, dry_run: bool, yes: bool) -> int:
    """Make what Pulumi needs before it can run: the bucket of its state, and a key.

    Reads `state` of the fleet file. What is there already is left; what k3fleet made and
    somebody changed is set right; nothing is ever deleted; a second run changes nothing.
    What k3fleet has no calls for is listed, to be made by hand: exit code 2.

    \b
    Example:
        k3fleet bootstrap fleets/launch.yaml --dry-run
        k3fleet bootstrap fleets/launch.yaml
    """
    spec = load_fleet(fleet_file).spec
    backend = spec.state.location
    if backend is None:
        _tell(output, "the work folder", (), "nothing to make: no backend is named under state")
        return EXIT_GO
    address = spec.state.backend or ""
    lines = by_hand(backend, spec.state.key)
    if not has_calls(backend):
        _tell(output, address, (), "to be made by hand", lines)
        return EXIT_INVALID
    owner, changes, make = _missing(spec, backend)
    outcome = "nothing to do" if not changes else "not done: --dry-run"
    if changes and not dry_run:
        _show(changes)
        confirm(yes=yes, what=f"Make this in {owner}?")
        make()
        outcome = "done"
    _tell(output, address, changes, outcome, lines)
    return EXIT_INVALID if lines else EXIT_GO


def _missing(
    spec: FleetSpec, backend: Backend
) -> tuple[str, tuple[Change, ...], Callable[[], None]]:
    """Give whose place it is, what is missing there, and what makes it."""
    if backend.kind == "file":
        return "the file system", missing_folder(backend), lambda: make_folder(backend)
    aws = connect(backend.parameters.get("profile"))
    found = survey(spec, backend, aws)
    owner = f"account {found.caller.account}, as {found.caller.arn}"

    def make() -> None:
        carry_out(found, aws, say=lambda line: click.echo(line, err=True), sleep=time.sleep)

    return owner, found.changes, make


def _show(changes: tuple[Change, ...]) -> None:
    for change in changes:
        click.echo(f"will {change.what}: {change.where}", err=True)


def _tell(
    output: str,
    address: str,
    changes: tuple[Change, ...],
    outcome: str,
    by_hand: tuple[str, ...] = (),
) -> None:
    if output == "json":
        print_json(
            {
                "backend": address,
                "changes": [asdict(change) for change in changes],
                "by_hand": by_hand,
                "outcome": outcome,
            }
        )
        return
    print_facts([("backend", address), ("outcome", outcome)])
    if changes:
        print_table(("where", "what"), [(item.where, item.what) for item in changes])
    for line in by_hand:
        print_line(f"by hand: {line}")
