"""`k3fleet traffic drain` and `restore`: take a region out of traffic, and bring it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import FunctionT, output_option, print_facts, print_json
from cli.racks_where import FLEET_FILE, places, where_options
from cli.rollout_plan import STRATEGY
from fleet.errors import EXIT_GO, ConfigError
from fleet.rollout.strategy import load_strategy
from fleet.traffic_shift import TOTAL_WEIGHT, Pacing, Shift, Side, plan_shift
from fleet.units import format_duration
from infra.rollout.machine import waiter
from infra.rollout.objects import ClusterObjects
from infra.traffic import Mover, Receiver, RegionTraffic
from lab.interrupts import interruptible
from lab.racks import RackPlaces

PREFILL_SHARE = 0.25
_OPTIONS = (
    FLEET_FILE,
    click.argument("region"),
    STRATEGY,
    click.option(
        "--prefill-share",
        type=click.FloatRange(0.01, 1.0),
        default=PREFILL_SHARE,
        show_default=True,
        help="Of the receivers' prefill, that moved sessions may take.",
    ),
    click.option(
        "--at-once",
        is_flag=True,
        help="All sessions now, where the other side is dead: every context is computed anew.",
    ),
    YES,
    click.option("--dry-run", is_flag=True, help="Show what it takes and costs, and do nothing."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Although somebody else seems to drive; he stops before his next touch.",
    ),
    where_options,
    output_option,
)


def shift_options(command: FunctionT) -> FunctionT:
    """Add what both commands have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@shift_options
def drain(fleet_file: Path, region: str, **options: Any) -> int:
    """Send the sessions of REGION to the other regions, slice by slice.

    Its gateways forward them, so clients need not change. Stopped or killed at any moment, it
    stays where it is; the same command goes on, and `restore` turns it round.

    \b
    Example:
        k3fleet traffic drain fleets/demo.yaml us-east --dry-run
        k3fleet traffic drain fleets/demo.yaml us-east --prefill-share 0.4
    """
    return _shift(fleet_file, region, TOTAL_WEIGHT, options)


@click.command()
@shift_options
def restore(fleet_file: Path, region: str, **options: Any) -> int:
    """Bring the sessions of REGION back to it, slice by slice.

    \b
    Example:
        k3fleet traffic restore fleets/demo.yaml us-east
        k3fleet traffic restore fleets/demo.yaml us-east --at-once
    """
    return _shift(fleet_file, region, 0, options)


def _shift(fleet_file: Path, region: str, target: int, options: Mapping[str, Any]) -> int:
    paced = not options["at_once"]
    strategy = load_strategy(options["strategy_file"])
    found = places(fleet_file, options)
    others = _others(found, region)
    for name in (region, *others):
        if wrong := found.site(name).wrong_cluster():
            raise ConfigError(f"{wrong}.")
    traffic = RegionTraffic(objects=ClusterObjects(found.clusters[region]))
    here, there = _receiver(found, region), tuple(_receiver(found, name) for name in others)
    receivers = there if target else (here,)
    own = Side(name=region, replicas=here.replicas)
    elsewhere = Side(name=", ".join(others), replicas=sum(r.serving() for r in there))
    shift = plan_shift(
        own,
        elsewhere if target else Side(name=region, replicas=here.serving()),
        strategy.assumed,
        pacing=Pacing(
            prefill_share=options["prefill_share"], heard_s=found.clusters[region].heard_s
        ),
        weight=traffic.weight(),
        target=target,
    )
    _tell(shift, options, paced=paced)
    if options["dry_run"] or not shift.slices:
        return EXIT_GO
    confirm(yes=options["yes"], what="Move them?")
    leases = found.leases(region, "traffic", _say)
    with leases.held(take_over=options["take_over"]), interruptible():
        mover = Mover(
            traffic=traffic,
            receivers=receivers,
            floor=strategy.floor,
            waiter=waiter(lambda: False),  # a signal ends the process, and anybody can go on
            say=_say,
            require_held=leases.require,
        )
        mover.move(shift, paced=paced)
    return EXIT_GO


def _others(found: RackPlaces, region: str) -> tuple[str, ...]:
    """Name the regions to which a region's gateways can send; raise ConfigError for none."""
    specs = {spec.name: spec for spec in found.fleet.spec.regions}
    if region not in specs:
        raise ConfigError(
            f"region {region}: not in the fleet file. Use one of: {', '.join(specs)}."
        )
    others = tuple(n for n, spec in specs.items() if n != region and spec.gateway_address)
    if not others:
        raise ConfigError(
            f"{found.fleet.path}: no other region says where its gateway is reached. Write "
            "gateway_address: HOST:PORT for it, and bring the serving layer up."
        )
    return others


def _receiver(found: RackPlaces, region: str) -> Receiver:
    site = found.site(region)
    return Receiver(
        name=region, replicas=found.plans[region].replicas, serving=lambda: len(site.serving())
    )


def _tell(shift: Shift, options: Mapping[str, Any], *, paced: bool) -> None:
    if options["output"] == "json":
        print_json({**asdict(shift), "total_s": shift.total_s, "paced": paced})
        return
    if not shift.slices:
        click.echo("nothing to move")
        return
    pace = f"{len(shift.slices)} slices in {format_duration(round(shift.total_s))}"
    at_once = format_duration(round(shift.at_once_s))
    print_facts(
        [
            ("sessions", f"about {shift.sessions}, assumed"),
            ("prefill again", f"{shift.prefill_tokens / 1e6:.0f} M tokens, at most"),
            ("pace", f"{pace}; {shift.prefill_share:.0%} of the receivers' prefill")
            if paced
            else ("pace", f"at once: all receivers compute nothing else for {at_once}"),
            ("hit rate", f"of the receivers, falls by about {shift.hit_dip * 100:.1f} points"),
            ("afterwards", f"a receiver has {shift.load:.2f} times its sessions"),
            ("unpaced", f"the receivers' whole prefill for {at_once}"),
        ]
    )


def _say(text: str) -> None:
    click.echo(text, err=True)
