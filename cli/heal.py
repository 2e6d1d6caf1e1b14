"""`k3fleet heal`: bring replicas off nodes that are ill, and back where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import output_option, print_json, print_line
from cli.racks_where import FLEET_FILE, REGION, in_region, places, where_options
from cli.racks_work import RackJob, as_json, job_of, lines
from cli.rollout_plan import STRATEGY
from fleet.errors import EXIT_GO, EXIT_NO_GO
from fleet.racks.moves import ailing, returning
from fleet.racks.seen import RackSeen
from infra.racks.reader import read_racks
from infra.racks.work import Planned
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
    jobs = [
        (job, job.work.plan(ailing(rack, found.fleet.hardware.gpus_per_node)))
        for rack in _racks(found, region)
        for job in [job_of(found, rack.id, options, "heal")]
    ]
    todo = [(job, planned) for job, planned in jobs if _has_work(planned)]
    for job, planned in todo:
        job.work.require_possible(planned)
        for line in _lines(job, planned):
            print_line(line) if options["output"] == "table" else click.echo(line, err=True)
    back: dict[str, tuple[str, ...]] = {}
    if todo and not options["dry_run"]:
        confirm(yes=options["yes"], what="Heal?")
        for job, _ in todo:
            with job.held() as work:
                back[work.rack] = work.heal()
                work.wait_serving(back[work.rack])
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


def _lines(job: RackJob, planned: Planned) -> list[str]:
    gpus = job.work.gpus
    ill = {node.name: ", ".join(node.sick(gpus)) for node in planned.rack.nodes if node.sick(gpus)}
    why = [f"{name}: {ill.get(name, 'there is no such node')}" for name in sorted(planned.nodes)]
    back = [
        f"bring {name} back: there is room for it"
        for name in returning(planned.settled, planned.rack.parked)
    ]
    plan = lines(planned) if planned.nodes else []
    return [f"{job.work.rack}: {line}" for line in (*why, *plan, *back)]


def _told(
    todo: list[tuple[RackJob, Planned]],
    back: Mapping[str, tuple[str, ...]],
    options: Mapping[str, Any],
) -> dict[str, object]:
    racks = [
        {
            "rack": job.work.rack,
            "ill": sorted(planned.nodes),
            **as_json(planned),
            "parked": list(planned.settled.drop),
            "back": list(back.get(job.work.rack, ())),
        }
        for job, planned in todo
    ]
    return {"dry_run": options["dry_run"], "racks": racks}
