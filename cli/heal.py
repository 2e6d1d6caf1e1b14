"""`k3fleet heal`: bring replicas off nodes that are ill, and back where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import output_option, print_json, print_line
from cli.racks_where import FLEET_FILE, REGION, in_region, places, where_options
from cli.racks_work import as_json, lines, say
from cli.rollout_plan import STRATEGY
from fleet.errors import EXIT_GO, EXIT_NO_GO
from fleet.racks.moves import ailing, returning
from fleet.racks.seen import RackSeen
from fleet.rollout.strategy import load_strategy
from infra.racks.reader import read_racks
from infra.racks.work import Planned, RackWork
from lab.racks import RackPlaces


@click.command()
@FLEET_FILE
@REGION
@STRATEGY
@YES
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Although somebody else seems to drive; he stops before his next touch.",
)
@where_options
@output_option
def heal(fleet_file: Path, region: str | None, **options: Any) -> int:
    """Take replicas off nodes that are ill or gone, rack by rack, and bring parked ones back.

    A rack with h healthy nodes runs floor(h/2) replicas. Those whose nodes are well are left
    alone; of the others, those with room move within the rack, the rest are parked until there
    is room again. Ill nodes are cordoned: `k3fleet racks uncordon` once they are repaired. Pods on
    a node that is silent are removed without its word. Exit code 1: --dry-run, and there is
    something to do.

    \b
    Example:
        k3fleet heal fleets/demo.yaml --dry-run
        k3fleet heal fleets/demo.yaml --region us-east --yes
    """
    found = places(fleet_file, options)
    strategy = load_strategy(options["strategy_file"])
    for name in in_region(found, region):
        found.require_no_rollout(name)
    works = [
        (work, work.plan(ailing(rack, work.gpus)))
        for rack in _racks(found, region)
        for work in [found.work(rack.id, strategy, whole=False, say=say)]
    ]
    todo = [(work, planned) for work, planned in works if _has_work(planned)]
    for work, planned in todo:
        work.require_possible(planned)
        for line in _lines(work, planned):
            if options["output"] == "table":
                print_line(line)
            else:
                say(line)
    back: dict[str, tuple[str, ...]] = {}
    if todo and not options["dry_run"]:
        confirm(yes=options["yes"], what="Heal?")
        for work, _ in todo:
            with found.held(work, "heal", take_over=options["take_over"]) as held:
                back[work.rack] = held.heal()
                held.wait_serving(back[work.rack])
    if not todo:
        click.echo("nothing to heal", err=True)
    if options["output"] == "json":
        print_json(_told(todo, back, options))
    return EXIT_NO_GO if todo and options["dry_run"] else EXIT_GO


def _racks(found: RackPlaces, region: str | None) -> Iterator[RackSeen]:
    """Give the racks of the fleet file that have nodes."""
    for name in in_region(found, region):
        own = {rack.id for rack in found.plans[name].racks}
        for rack in read_racks(found.clusters[name]).racks:
            if rack.id in own and rack.nodes:
                yield rack


def _has_work(planned: Planned) -> bool:
    return bool(planned.moves or returning(planned.settled, planned.rack.parked))


def _lines(work: RackWork, planned: Planned) -> list[str]:
    gpus = work.gpus
    ill = {node.name: ", ".join(node.sick(gpus)) for node in planned.rack.nodes if node.sick(gpus)}
    why = [f"{name}: {ill.get(name, 'there is no such node')}" for name in sorted(planned.nodes)]
    back = [
        f"bring {name} back: there is room for it"
        for name in returning(planned.settled, planned.rack.parked)
    ]
    plan = lines(planned) if planned.nodes else []
    return [f"{work.rack}: {line}" for line in (*why, *plan, *back)]


def _told(
    todo: list[tuple[RackWork, Planned]],
    back: Mapping[str, tuple[str, ...]],
    options: Mapping[str, Any],
) -> dict[str, object]:
    racks = [
        {
            "rack": work.rack,
            "ill": sorted(planned.nodes),
            **as_json(planned),
            "parked": list(planned.settled.drop),
            "back": list(back.get(work.rack, ())),
        }
        for work, planned in todo
    ]
    return {"dry_run": options["dry_run"], "racks": racks}
