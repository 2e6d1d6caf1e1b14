"""`k3fleet capacity status`: what was bought, how it is, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cli.capacity_options import FLEET_FILE, YES, Desk, desk, work_dir_option
from cli.confirm import confirm
from cli.options import DURATION
from cli.output import output_option, print_json, print_line, print_table
from cli.plain import plain
from fleet.capacity.blocks import OVER_STATES, Block, Claim
from fleet.capacity.deadlines import CLOUDS, Timetable, timetable
from fleet.capacity.verdicts import Alarm, Watch, alarms, is_shown, overdue, served_racks, utc_text
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError
from infra.capacity.readers import readers
from infra.capacity.scale_in import find_group, schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """All that `status` shows."""

    now: datetime
    blocks: list[Block]
    claims: list[Claim]
    tables: dict[str, Timetable]  # by rack
    alarms: list[Alarm]
    open_orders: list[str]


@click.command()
@FLEET_FILE
@click.option(
    "--notice",
    "notice_s",
    type=DURATION,
    default="3d",
    show_default=True,
    help="Alarm when a block ends within this.",
)
@click.option(
    "--drain-at-once",
    "at_once",
    type=click.IntRange(1, 18),
    default=1,
    show_default=True,
    help="Replicas of a rack that drain at the same time at its end.",
)
@click.option("--schedule", "write", is_flag=True, help="Write the racks' end to their groups.")
@YES
@work_dir_option
@output_option
def status(fleet_file: Path, work_dir: Path | None, output: str, **options: Any) -> int:
    """Show the fleet's blocks: state, interconnect, hours left, racks, and when to drain.

    Exit 1 with alarms: an impaired interconnect, an end that is near, a failed payment, a block
    that serves no rack, a rack whose block is not there, an order without an outcome.

    \b
    Example:
        k3fleet capacity status fleets/launch.yaml
        k3fleet capacity status fleets/launch.yaml --schedule
    """
    at = desk(fleet_file, work_dir)
    picture = _picture(at, options)
    if options["write"]:
        _schedule(at, picture, yes=options["yes"])
    if output == "json":
        print_json(_data(picture))
    else:
        _show(picture)
    return EXIT_NO_GO if picture.alarms else EXIT_GO


def _picture(at: Desk, options: dict[str, Any]) -> _Picture:
    watched = readers(at.fleet, lambda: at.access)
    claims = [claim for reader in watched for claim in reader.claims()]
    name, now = at.fleet.spec.name, at.clock.now()
    there = [block for reader in watched for block in reader.blocks()]
    blocks = [block for block in there if is_shown(block, claims, name)]
    tables = _tables(at, blocks, claims, options["at_once"])
    watch = Watch(fleet=name, now=now, notice=timedelta(seconds=options["notice_s"]))
    orders = [order.id for order in at.receipts.open_orders()]
    unclear = [
        Alarm(about=order, kind="unclear-order", text="has no outcome. Run its command again.")
        for order in orders
    ]
    return _Picture(
        now=now,
        blocks=blocks,
        claims=claims,
        tables=tables,
        alarms=[*alarms(blocks, claims, watch), *overdue(tables, now), *unclear],
        open_orders=orders,
    )


def _tables(
    at: Desk, blocks: Sequence[Block], claims: Sequence[Claim], at_once: int
) -> dict[str, Timetable]:
    replicas = {claim.rack: claim.replicas for claim in claims}
    return {
        rack: timetable(
            block.ends_at,
            replicas=replicas[rack],
            drain_s=at.fleet.release.drain_s,
            at_once=at_once,
        )
        for block in blocks
        if block.cloud in CLOUDS and block.ends_at and block.state not in OVER_STATES
        for rack in served_racks(block, claims)
    }


def _schedule(at: Desk, picture: _Picture, *, yes: bool) -> None:
    regions = {claim.rack: claim.region for claim in picture.claims}
    late = [rack for rack, times in picture.tables.items() if times.scale_in_at <= picture.now]
    if late:
        raise ConfigError(
            f"{', '.join(late)}: it is too late for a schedule. Drain now, then end the nodes."
        )
    for rack, times in picture.tables.items():
        group = find_group(at.access, regions[rack], at.fleet.spec.name, rack)
        confirm(
            yes=yes,
            what=f"Set {group.group} ({rack}) to 0 nodes at {utc_text(times.scale_in_at)}?",
        )
        schedule(at.access, group, times)
        when = utc_text(times.scale_in_at)
        click.echo(plain(f"{rack}: {group.group} goes to 0 nodes at {when}"), err=True)


def _data(picture: _Picture) -> dict[str, object]:
    return {
        "blocks": [_block(block, picture) for block in picture.blocks],
        "racks": {
            rack: {name: utc_text(time) for name, time in asdict(times).items()}
            for rack, times in picture.tables.items()
        },
        "open_orders": picture.open_orders,
        "alarms": [asdict(alarm) for alarm in picture.alarms],
    }


def _block(block: Block, picture: _Picture) -> dict[str, object]:
    return {
        "block": block.id,
        "region": block.region,
        "zone": block.zone,
        "type": block.rack_type,
        "state": block.state,
        "reservations": list(block.reservations),
        "racks": list(served_racks(block, picture.claims)),
        "starts_at": utc_text(block.starts_at) if block.starts_at else None,
        "ends_at": utc_text(block.ends_at) if block.ends_at else None,
        "hours_left": _hours_left(block, picture.now),
        "health": asdict(block.health) if block.health else None,
    }


def _hours_left(block: Block, now: datetime) -> float | None:
    if block.ends_at is None:
        return None
    return round(max((block.ends_at - now).total_seconds(), 0) / 3600, 1)


def _show(picture: _Picture) -> None:
    if picture.blocks:
        print_table(
            ("block", "state", "interconnect", "machines", "racks", "hours left", "drain from"),
            [_row(block, picture) for block in picture.blocks],
        )
    else:
        print_line("No block is tagged for this fleet or named in its file.")
    for alarm in picture.alarms:
        print_line(f"{alarm.kind}: {alarm.about} {alarm.text}")


def _row(block: Block, picture: _Picture) -> tuple[object, ...]:
    racks = served_racks(block, picture.claims)
    health = block.health
    drains = [picture.tables[rack].drain_at for rack in racks if rack in picture.tables]
    left = _hours_left(block, picture.now)
    return (
        block.id,
        block.state,
        health.interconnect if health else "unknown",
        f"{health.available}/{health.total}" if health else "unknown",
        ", ".join(racks) or "-",
        "-" if left is None else left,
        utc_text(min(drains)) if drains else "-",
    )
