"""`k3fleet capacity buy` and `extend`: the commands that spend money."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from cli.capacity_find import NO_WAY_BACK
from cli.capacity_options import (
    FLEET_FILE,
    Desk,
    agree,
    chance,
    desk,
    fees,
    money_options,
    work_dir_option,
)
from cli.options import DURATION
from cli.output import output_option, print_json, print_line
from cli.plain import plain
from fleet.capacity.blocks import GOOD_STATES
from fleet.capacity.claims import (
    account_of,
    aws_claims,
    check_racks,
    choose_region,
)
from fleet.capacity.offers import Offer, check_hours
from fleet.capacity.order import Extension, Order, Receipt, check_fee, order_id
from fleet.capacity.verdicts import utc_text
from fleet.errors import EXIT_GO, EXIT_INVALID, CloudError, PurchaseError
from fleet.region_spec import RegionSpec
from infra.capacity.aws_access import check_account
from infra.capacity.aws_blocks import read_blocks
from infra.capacity.aws_market import extension_offers, fresh
from infra.capacity.buying import (
    EXTENSION_PAID,
    own_block,
    require_end_known,
    require_listed,
    require_no_idle_blocks,
    require_opted_in,
    settle_open_orders,
    wait_for_extension,
    wait_for_payment,
)
from infra.capacity.purchase import purchase, till_of

WAIT = click.option(
    "--wait",
    "wait_s",
    type=DURATION,
    default="15m",
    show_default=True,
    help="How long to wait for the payment.",
)
ABANDON = click.option(
    "--abandon", multiple=True, metavar="ORDER", help="Give up an order that left no trace."
)


@click.command()
@FLEET_FILE
@click.argument("offer_id", metavar="OFFER")
@click.option("--region", "name", help="The fleet's region, where several are in one of AWS.")
@click.option("--rack", "racks", multiple=True, help="For which rack it is. Repeatable.")
@click.option(
    "--besides", multiple=True, metavar="BLOCK", help="A block without a rack that is all right."
)
@ABANDON
@money_options
@WAIT
@work_dir_option
@output_option
def buy(fleet_file: Path, offer_id: str, work_dir: Path | None, output: str, **options: Any) -> int:
    """Buy OFFER, of those that `find` listed last. It is paid at once and cannot be cancelled.

    An earlier purchase whose answer got lost is looked for first, and nothing is bought then.
    Exit 17: nothing was bought. Exit 18: nobody knows; run the same command again.

    \b
    Example:
        k3fleet capacity buy fleets/launch.yaml cbo-0123 --rack use1-r02 --max-fee 900000
    """
    fees(options)  # a slip in the figures shows before anything is asked
    at = desk(fleet_file, work_dir)
    with at.receipts.locked():
        if settled := _settled(at, options["abandon"]):
            return _end(at, settled, options["wait_s"], output)
        quoted = at.receipts.quote(offer_id)
        region = choose_region(at.fleet, quoted.region, options["name"])
        check_racks(region, options["racks"], quoted.racks)
        account = account_of(at.fleet, quoted.region)
        check_account(at.access, quoted.region, account)
        blocks = read_blocks(at.access, quoted.region)
        name = at.fleet.spec.name
        require_no_idle_blocks(blocks, aws_claims(at.fleet), name, options["besides"])
        require_listed(at.receipts, blocks, name, options["besides"], at.clock.now())
        offer = fresh(at.access, quoted)
        order = _order(at, region, account, offer, options)
        check_fee(offer, max_fee=order.max_fee, expect_fee=None)
        require_opted_in(at.access, offer)
        till_of(at.access, order).rehearse()
        _say_offer(offer)
        agree(offer, offer.racks, options)
        receipt = purchase(till_of(at.access, order), order, at.receipts, at.clock)
        return _end(at, [(order, receipt)], options["wait_s"], output)


@click.command()
@FLEET_FILE
@click.argument("reservation")
@click.option("--for", "more_s", type=DURATION, required=True, help="How much longer.")
@ABANDON
@money_options
@WAIT
@work_dir_option
@output_option
def extend(
    fleet_file: Path, reservation: str, work_dir: Path | None, output: str, **options: Any
) -> int:
    """Buy more time for RESERVATION (cr-…) of the fleet. It cannot be cancelled.

    \b
    Example:
        k3fleet capacity extend fleets/launch.yaml cr-0123456789abcdef0 --for 7d --max-fee 400000
    """
    limit, _ = fees(options)
    hours = check_hours(options["more_s"])
    at = desk(fleet_file, work_dir)
    with at.receipts.locked():
        if settled := _settled(at, options["abandon"]):
            return _end(at, settled, options["wait_s"], output)
        region, block = own_block(at.access, at.fleet, reservation)
        ends = [c.ends_at for c in aws_claims(at.fleet) if c.reservation == reservation]
        require_end_known(at.access, at.receipts, block, reservation, ends[0])
        found = extension_offers(at.access, block.region, reservation, hours)
        if not found:
            raise PurchaseError(
                f"{reservation}: no {hours} more hours are offered. Nothing was bought. "
                "Ask for another time, or buy another block."
            )
        extension = found[0]
        check_fee(extension, max_fee=limit, expect_fee=None)
        account = account_of(at.fleet, block.region)
        order = _order(at, region, account, extension, {**options, "racks": ()})
        till_of(at.access, order).rehearse()
        _say_extension(extension)
        agree(extension, len(block.reservations), options)
        receipt = purchase(till_of(at.access, order), order, at.receipts, at.clock)
        return _end(at, [(order, receipt)], options["wait_s"], output)


def _settled(at: Desk, abandon: Sequence[str]) -> list[tuple[Order, Receipt]]:
    """Look for earlier orders, in whatever account they were made."""
    for order in at.receipts.open_orders():
        check_account(at.access, order.goods.region, order.account)
    found = settle_open_orders(at.access, at.receipts, at.clock, abandon=abandon)
    for order, _ in found:
        click.echo(
            plain(
                f"order {order.id} of {order.ordered_at:%Y-%m-%d %H:%M} UTC was bought after all;"
            )
            + " nothing is bought now",
            err=True,
        )
    return found


def _order(
    at: Desk, region: RegionSpec, account: str, goods: Offer | Extension, options: dict[str, Any]
) -> Order:
    now = at.clock.now()
    return Order(
        id=order_id(now, chance()),
        fleet=at.fleet.spec.name,
        fleet_region=region.name,
        racks=tuple(dict.fromkeys(options["racks"])),
        account=account,
        goods=goods,
        max_fee=fees(options)[0],
        ordered_at=now,
    )


def _say_offer(offer: Offer) -> None:
    _tell(
        f"{offer.racks} x {offer.rack_type} ({offer.instances} x {offer.instance_type}) in "
        f"{offer.zone}",
        f"from {utc_text(offer.starts_at)} to {utc_text(offer.ends_at)}",
        f"for {offer.fee} {offer.currency}, {offer.fee_per_rack_hour} per rack-hour",
        NO_WAY_BACK,
    )


def _say_extension(extension: Extension) -> None:
    _tell(
        f"{extension.reservation} until {utc_text(extension.ends_at)}",
        f"for {extension.fee} {extension.currency}",
        NO_WAY_BACK,
    )


def _tell(*lines: str) -> None:
    for line in lines:
        click.echo(plain(line), err=True)


def _end(at: Desk, ended: Sequence[tuple[Order, Receipt]], wait_s: float, output: str) -> int:
    """Wait for the payment, and say what to write into the fleet file."""
    within = timedelta(seconds=wait_s)
    told, pending = [], False
    for order, receipt in ended:
        states = _paid(at, order, receipt, within)
        pending |= not states or not set(states.values()) <= {*GOOD_STATES, EXTENSION_PAID}
        told.append(_told(order, receipt, states))
    if output == "json":
        print_json(told if len(told) > 1 else told[0])
    else:
        for item in told:
            _show(item)
    _say_schedule(at, [order.goods for order, _ in ended])
    if pending:
        click.echo("The payment is pending. See `k3fleet capacity status`.", err=True)
    return EXIT_INVALID if pending else EXIT_GO


def _say_schedule(at: Desk, goods: Iterable[Offer | Extension]) -> None:
    """Warn of a schedule that still ends the nodes of a rack that now stays longer."""
    for item in goods:
        if isinstance(item, Extension):
            _tell(
                f"{item.reservation}: if `status --schedule` was run before, the rack's nodes "
                "still end at the old time. Write the new end into the fleet file, then move it:",
                f"  k3fleet capacity status {at.fleet.path} --schedule",
            )


def _paid(at: Desk, order: Order, receipt: Receipt, within: timedelta) -> dict[str, str]:
    """Wait for a payment; give the state of each block, or of the extended reservation."""
    goods = order.goods
    names = ", ".join(name for item in receipt.bought for name in item.reservations)
    _tell(f"order {order.id}: bought {names}; waiting for the payment")
    try:
        if isinstance(goods, Extension):
            return {goods.reservation: wait_for_extension(at.access, goods, at.clock, within)}
        blocks = wait_for_payment(at.access, goods.region, receipt.bought, at.clock, within)
    except CloudError as error:  # it is bought all the same, and has to be told
        _tell(f"{error}")
        return {}
    return {block.id: block.state for block in blocks}


def _told(order: Order, receipt: Receipt, states: dict[str, str]) -> dict[str, Any]:
    goods = order.goods
    bought = [
        {
            "reservation": reservation,
            "block": item.block,
            "ends_at": utc_text(item.ends_at or goods.ends_at),
        }
        for item in receipt.bought
        for reservation in item.reservations
    ]
    return {
        "order": order.id,
        "found_later": receipt.found_later,
        "fee": str(goods.fee),
        "currency": goods.currency,
        "states": states,
        "zone": goods.zone if isinstance(goods, Offer) else None,
        "racks": list(order.racks),
        "bought": bought,
    }


def _show(told: dict[str, Any]) -> None:
    states = ", ".join(f"{block} is {state}" for block, state in told["states"].items())
    print_line(f"bought for {told['fee']} {told['currency']}, order {told['order']}. {states}")
    print_line("Write into the fleet file, under the rack:")
    for item in told["bought"]:
        zone = f", zone: {told['zone']}" if told["zone"] else ""
        print_line(f"  capacity: {{reservation: {item['reservation']}{zone}}}")
        print_line(f"  capacity_ends_at: {item['ends_at']}")
