"""`k3fleet refresh`, `outputs` and `unlock`: look after what Pulumi knows of a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import print_facts, print_json, print_line
from cli.plain import plain
from cli.provision_options import Asked, asked, which_options
from cli.provision_output import print_done
from cli.wiring import user_name
from fleet.errors import EXIT_GO, BusyError
from infra.outputs import read_outputs
from infra.provision.run import held
from infra.provision.run import refresh as refresh_all
from infra.stacks import StackRunner
from infra.state.locks import is_here, is_stale


@click.command()
@which_options
@click.option("--repair", is_flag=True, help="Close operations that a cut-off update left open.")
def refresh(fleet_file: Path, **options: Any) -> int:
    """Read the stacks of FLEET_FILE again from what is there. Changes only Pulumi's state.

    \b
    Example:
        k3fleet refresh fleets/launch.yaml --region us-east
        k3fleet refresh fleets/launch.yaml --all --repair
    """
    with (
        asked(fleet_file, options) as what,
        held(what.stacks, what.request, "k3fleet refresh", user_name()),
    ):
        done = refresh_all(what.stacks, what.request)
        return print_done(done, (), options["output"])


@click.command()
@which_options
def outputs(fleet_file: Path, **options: Any) -> int:
    """Show what the stacks of FLEET_FILE's last updates left: names and addresses, no secrets.

    \b
    Example:
        k3fleet outputs fleets/launch.yaml --region us-east --layer cluster -o json
    """
    found: dict[str, dict[str, Any]] = {}
    with asked(fleet_file, options) as what:
        for stack in _chosen(what):
            values: Mapping[str, Any] = {}
            if what.stacks.store.exists(stack.name) is not False:
                values = stack.outputs()
            if not values:  # a preview makes a stack, and leaves it empty
                what.show.note(f"{stack.stack}: not brought up yet")
                continue
            found[stack.stack] = read_outputs(stack.layer, stack.stack, values).model_dump(
                mode="json"
            )
    if options["output"] == "json":
        print_json(found)
        return EXIT_GO
    for name, values in found.items():
        print_line(name)
        print_facts([(f"  {key}", str(value)) for key, value in values.items()])
    return EXIT_GO


@click.command()
@which_options
@YES
def unlock(fleet_file: Path, **options: Any) -> int:
    """Remove the locks that dead updates left on the stacks of FLEET_FILE.

    A lock whose holder runs on this machine stays. Of a holder on another machine nobody here can
    know: make sure, then agree.

    \b
    Example:
        k3fleet unlock fleets/launch.yaml --region us-east
    """
    removed = []
    with asked(fleet_file, options) as what:
        for stack in _chosen(what):
            for lock in what.stacks.store.locks(stack.name):
                holder = f"{stack.stack}: {lock.told(what.stacks.ground.now())}"
                if is_here(lock) and not is_stale(lock):
                    raise BusyError(f"{holder}: it is alive. Wait for it, or stop it.")
                gone = "is dead" if is_here(lock) else "cannot be seen from here"
                click.echo(plain(f"{holder}: {gone}"), err=True)
                confirm(yes=options["yes"], what="Remove its lock?")
                what.stacks.store.remove(lock)
                stack.folder.mkdir(parents=True, exist_ok=True)
                stack.unclean.touch()  # the next update looks at what is there first
                removed.append({"stack": stack.stack, "holder": holder})
    if options["output"] == "json":
        print_json({"removed": removed})
    else:
        print_line(f"{len(removed)} locks removed")
    return EXIT_GO


def _chosen(what: Asked) -> Iterator[StackRunner]:
    """Give the stacks that were chosen, as far as they are known without a cluster."""
    for region, layers in what.request.places:
        for layer in layers:
            yield what.stacks.bare(layer, region)
