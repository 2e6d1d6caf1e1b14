"""`k3fleet capacity find`: what is for sale, cheapest rack-hour first."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import click

from cli.capacity_options import FLEET_FILE, YES, Desk, desk, work_dir_option
from cli.confirm import confirm
from cli.options import DURATION
from cli.output import output_option, print_json, print_line, print_table
from cli.plain import plain
from cli.progress import TerminalProgress
from fleet.capacity.claims import account_of, default_rack_type, require_aws
from fleet.capacity.offers import HORIZON, Offer, Search, check_hours
from fleet.capacity.verdicts import utc_text
from fleet.errors import EXIT_GO, EXIT_NO_GO, CloudError, ConfigError
from infra.capacity.aws_access import check_account
from infra.capacity.aws_market import Found, find_offers
from infra.capacity.zones import OPTED_OUT, Quota, Zone, opt_in, read_quotas, read_zones

NO_WAY_BACK = "What is bought is paid at once and cannot be cancelled or given back."
_DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@FLEET_FILE
@click.option(
    "--for",
    "durations",
    type=DURATION,
    multiple=True,
    default=("7d",),
    show_default=True,
    help="How long; 1d to 14d, or a multiple of 7d up to 182d. Repeatable.",
)
@click.option("--racks", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--ultraserver-type", help="Default: after the racks' instance type.")
@click.option("--from", "after", type=_DAY, help="Earliest day of the start. Default: now.")
@click.option("--until", "before", type=_DAY, help="Latest. Default: in eight weeks.")
@click.option("--region", "names", multiple=True, help="Only these regions of the fleet.")
@click.option("--opt-in", is_flag=True, help="Opt in to the zones of offers, after asking.")
@YES
@work_dir_option
@output_option
def find(fleet_file: Path, work_dir: Path | None, output: str, **options: Any) -> int:
    """List capacity blocks for sale in the fleet's AWS regions. Buys nothing.

    Sorted by price per rack-hour. What is bought is paid at once and cannot be cancelled.
    Exit 1: nothing is offered.

    \b
    Example:
        k3fleet capacity find fleets/launch.yaml --for 7d --for 14d --racks 2
    """
    at = desk(fleet_file, work_dir)
    regions = _regions(at, options["names"])
    search = _search(at, options)
    for region in regions:
        check_account(at.access, region, account_of(at.fleet, region))
    progress = TerminalProgress(sys.stderr)
    progress.step(f"asking AWS for {search.racks} x {search.rack_type}")
    found = find_offers(at.access, search, regions, told=progress.update)
    progress.note(f"asked {', '.join(regions)}: {len(found.offers)} offers")
    at.receipts.save_quotes(found.offers)
    zones = _zones(at, found)
    if options["opt_in"]:
        _opt_in(at, zones, yes=options["yes"])
    quotas = _quotas(at, regions)
    if output == "json":
        print_json(_data(found, zones, quotas))
    else:
        _show(found, zones, quotas)
    return EXIT_GO if found.offers else EXIT_NO_GO


def _regions(at: Desk, names: tuple[str, ...]) -> list[str]:
    there = require_aws(at.fleet)
    unknown = set(names) - {region.name for region, _ in there}
    if unknown:
        known = ", ".join(region.name for region, _ in there)
        raise ConfigError(
            f"--region: {min(unknown)!r} is none of the fleet in AWS. Known: {known}."
        )
    chosen = [cluster.region for region, cluster in there if not names or region.name in names]
    return list(dict.fromkeys(chosen))


def _search(at: Desk, options: dict[str, Any]) -> Search:
    now = at.clock.now()
    after = max(now, _midnight(options["after"]) or now)
    before = _midnight(options["before"]) or now + HORIZON
    if not after < before <= now + HORIZON:
        raise ConfigError(
            f"--from/--until: blocks start between now and {now + HORIZON:%Y-%m-%d}. "
            "Give days in that time, the earlier first."
        )
    return Search(
        rack_type=options["ultraserver_type"] or default_rack_type(at.fleet),
        racks=options["racks"],
        hours=tuple(check_hours(seconds) for seconds in options["durations"]),
        starts_after=after,
        starts_before=before,
    )


def _midnight(day: datetime | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


def _zones(at: Desk, found: Found) -> dict[tuple[str, str], Zone | None]:
    """Give the zones that offers are in; None: the region does not list it."""
    zones: dict[tuple[str, str], Zone | None] = {}
    for region in dict.fromkeys(offer.region for offer in found.offers):
        known = read_zones(at.access, region)
        names = {offer.zone for offer in found.offers if offer.region == region}
        zones |= {(region, name): known.get(name) for name in sorted(names)}
    return zones


def _opt_in(at: Desk, zones: dict[tuple[str, str], Zone | None], *, yes: bool) -> None:
    groups = {
        (region, zone.group)
        for (region, _), zone in zones.items()
        if zone is not None and zone.status == OPTED_OUT
    }
    for region, group in sorted(groups):
        confirm(
            yes=yes,
            what=f"Opt the account in to zone group {group} of {region}? "
            "Only AWS's support can take it back.",
        )
        opt_in(at.access, region, group)
        click.echo(f"opted in to {group}", err=True)


def _quotas(at: Desk, regions: list[str]) -> list[Quota]:
    """Read the quotas; where they cannot be read they are unknown, which is no reason to stop."""
    quotas: list[Quota] = []
    for region in regions:
        try:
            quotas += read_quotas(at.access, region)
        except CloudError as error:
            click.echo(plain(f"quotas: {error}"), err=True)
            quotas.append(Quota(region=region, name="capacity blocks", value=None))
    return quotas


def _data(
    found: Found, zones: dict[tuple[str, str], Zone | None], quotas: list[Quota]
) -> dict[str, object]:
    return {
        "can_be_cancelled": False,
        "offers": [_offer(offer, zones.get((offer.region, offer.zone))) for offer in found.offers],
        "quotas": [
            {"region": quota.region, "name": quota.name, "value": quota.value} for quota in quotas
        ],
        "failed": found.failed,
    }


def _offer(offer: Offer, zone: Zone | None) -> dict[str, object]:
    return {
        **offer.model_dump(mode="json"),
        "fee_per_rack_hour": str(offer.fee_per_rack_hour),
        "zone_group": zone.group if zone else None,
        "zone_status": zone.status if zone else "unknown",
    }


def _show(found: Found, zones: dict[tuple[str, str], Zone | None], quotas: list[Quota]) -> None:
    if found.offers:
        print_table(
            ("offer", "zone", "racks", "starts", "hours", "fee", "per rack-hour", "opt-in"),
            [_row(offer, zones.get((offer.region, offer.zone))) for offer in found.offers],
        )
        print_line(NO_WAY_BACK)
    else:
        print_line("Nothing is offered. Try another duration, another start or fewer racks.")
    for region, why in found.failed.items():
        print_line(f"{region} could not be asked: {why}")
    for quota in quotas:
        value = "unknown" if quota.value is None else f"{quota.value:g}"
        print_line(f"quota in {quota.region}: {quota.name}: {value}")


def _row(offer: Offer, zone: Zone | None) -> tuple[object, ...]:
    return (
        offer.id,
        offer.zone,
        offer.racks,
        utc_text(offer.starts_at),
        f"{offer.hours:f}",
        f"{offer.fee} {offer.currency}",
        f"{offer.fee_per_rack_hour} {offer.currency}",
        zone.status if zone else "unknown",
    )
