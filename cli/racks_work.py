"""`k3fleet racks cordon`, `drain` and `uncordon`: take nodes out of work, and bring them back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import FunctionT, output_option, print_json, print_line
from cli.plain import plain
from cli.racks_where import FLEET_FILE, places, where_options
from cli.rollout_plan import STRATEGY
from fleet.errors import EXIT_GO, ConfigError
from fleet.racks.wording import named
from fleet.rollout.strategy import load_strategy
from infra.racks.work import Planned, RackWork
from lab.racks import RackPlaces

_OPTIONS = (
    FLEET_FILE,
    click.argument("rack"),
    click.argument("nodes", nargs=-1, metavar="[NODE]..."),
    YES,
    STRATEGY,
    click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Although somebody else seems to drive; he stops before his next touch.",
    ),
    where_options,
    output_option,
)
_MOVES = {
    "drop": "park {}: no two healthy nodes are left for it",
    "move": "move {} within the rack",
}


def work_options(command: FunctionT) -> FunctionT:
    """Add rack, nodes, and the options of all commands that touch a rack."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@work_options
@click.option(
    "--during-rollout", is_flag=True, help="Also while a rollout is open; its step may then fail."
)
def cordon(
    fleet_file: Path, rack: str, nodes: tuple[str, ...], during_rollout: bool, **options: Any
) -> int:
    """Let no more pods onto NODEs of RACK, or onto all. What runs stays.

    \b
    Example:
        k3fleet racks cordon fleets/demo.yaml use1-r01 use1-r01-n03
    """
    found, work = _work(fleet_file, rack, options, check_rollout=not during_rollout)
    asked = _nodes(work, nodes)
    if _goes_on([f"cordon {named(asked)}"], "Cordon?", options):
        if during_rollout:  # its driver has the lease
            work.cordon(asked)
        else:
            with found.held(work, "cordon", take_over=options["take_over"]) as held:
                held.cordon(asked)
    return _told(rack, options, cordoned=sorted(asked))


@click.command()
@work_options
def drain(fleet_file: Path, rack: str, nodes: tuple[str, ...], **options: Any) -> int:
    """Move replicas off NODEs of RACK, or off all, by the rules of a rollout, and cordon them.

    One replica after the other: out of routing, streams end within the release's drain budget,
    then it goes. With h healthy nodes a rack keeps floor(h/2) replicas; one without a place is
    parked until `uncordon`. Killed at any moment, the same command goes on.

    \b
    Example:
        k3fleet racks drain fleets/demo.yaml use1-r01 use1-r01-n03 --dry-run
        k3fleet racks drain fleets/demo.yaml use1-r01 use1-r01-n03
    """
    found, work = _work(fleet_file, rack, options, whole=not nodes)
    asked = _nodes(work, nodes)
    planned = work.plan(asked)
    work.require_possible(planned)
    if _goes_on(lines(planned), "Drain?", options):
        with found.held(work, "drain", take_over=options["take_over"]) as held:
            held.drain(asked)
    return _told(rack, options, drained=sorted(asked), **as_json(planned))


@click.command()
@work_options
@click.option("--no-wait", is_flag=True, help="Do not wait until replicas serve again.")
def uncordon(
    fleet_file: Path, rack: str, nodes: tuple[str, ...], no_wait: bool, **options: Any
) -> int:
    """Let pods onto NODEs of RACK again, and bring parked replicas back that have room.

    Without NODE: those that `racks cordon` or `drain` took, and none that somebody else did.

    \b
    Example:
        k3fleet racks uncordon fleets/demo.yaml use1-r01
    """
    found, work = _work(fleet_file, rack, options)
    ours = tuple(node.name for node in work.read().nodes if node.cordoned_by)
    asked = _nodes(work, nodes) if nodes else ours
    back: tuple[str, ...] = ()
    if _goes_on([f"uncordon {named(asked) or 'no node'}"], "Uncordon?", options):
        with found.held(work, "uncordon", take_over=options["take_over"]) as held:
            back = held.uncordon(asked)
            if not no_wait:
                held.wait_serving(back)
    return _told(rack, options, uncordoned=sorted(asked), back=list(back))


def _work(
    fleet_file: Path,
    rack: str,
    options: Mapping[str, Any],
    *,
    whole: bool = False,
    check_rollout: bool = True,
) -> tuple[RackPlaces, RackWork]:
    strategy = load_strategy(options["strategy_file"])
    found = places(fleet_file, options)
    work = found.work(rack, strategy, whole=whole, say=say)
    if check_rollout:
        found.require_no_rollout(work.region.cluster.region)
    return found, work


def _nodes(work: RackWork, names: Sequence[str]) -> tuple[str, ...]:
    """Give the nodes that are named, or all; raise ConfigError for one of another rack."""
    known = [node.name for node in work.read().nodes]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{name}: is no node of rack {work.rack}. Use one of: {', '.join(known)}."
            )
    return tuple(dict.fromkeys(names)) or tuple(known)


def _goes_on(told: Sequence[str], question: str, options: Mapping[str, Any]) -> bool:
    """Say what will be done and ask; False: only look."""
    for line in told:
        if options["output"] == "table":
            print_line(line)
        else:
            say(line)
    if options["dry_run"]:
        return False
    confirm(yes=options["yes"], what=question)
    return True


def _told(rack: str, options: Mapping[str, Any], **told: object) -> int:
    if options["output"] == "json":
        print_json({"rack": rack, "dry_run": options["dry_run"], **told})
    return EXIT_GO


def lines(planned: Planned) -> list[str]:
    """Say what a drain would do."""
    settled = planned.settled
    moving, without = len(settled.move), len(settled.drop)
    return [
        f"cordon {named(sorted(planned.nodes))}",
        *(_MOVES[move.how].format(move.replica) for move in planned.moves),
        f"{len(settled.stay)} replicas stay, {moving} move or wait, {without} have no place",
    ]


def as_json(planned: Planned) -> dict[str, Collection[object]]:
    """Say it as plain data."""
    return {
        "stay": list(planned.settled.stay),
        "moves": [{"replica": move.replica, "how": move.how} for move in planned.moves],
    }


def say(text: str) -> None:
    """Tell how it goes, on stderr."""
    click.echo(plain(text), err=True)
