"""Do what comes before and after a purchase: old orders, blocks that lie idle, the payment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from fleet.capacity.blocks import FAILED_STATES, GOOD_STATES, OVER_STATES, Block, Claim
from fleet.capacity.claims import aws_claims, require_aws
from fleet.capacity.offers import Offer
from fleet.capacity.order import (
    SETTLES_WITHIN,
    Bought,
    Extension,
    Order,
    Receipt,
    belongs_to,
    may_abandon,
)
from fleet.capacity.verdicts import SAME_END, served_racks, utc_text
from fleet.errors import ConfigError, PurchaseError, UnclearPurchaseError
from fleet.load import Fleet
from fleet.region_spec import RegionSpec
from infra.capacity.aws_access import AwsAccess, check_account
from infra.capacity.aws_blocks import read_blocks
from infra.capacity.aws_market import all_extensions, extension_history
from infra.capacity.clock import Clock
from infra.capacity.purchase import settle, till_of
from infra.capacity.receipts import Receipts
from infra.capacity.zones import OPTED_OUT, read_zones

POLL_EVERY_S = 15.0
EXTENSION_PAID = "payment-succeeded"


def settle_open_orders(
    access: AwsAccess, receipts: Receipts, clock: Clock, *, abandon: Collection[str]
) -> list[tuple[Order, Receipt]]:
    """Find out how earlier orders ended, and give those that turn out to be bought.

    Raises UnclearPurchaseError for one that cannot be told and is not abandoned, ConfigError for
    one that is to be abandoned and is not open.
    """
    found, orders = [], receipts.open_orders()
    _require_open(receipts, orders, abandon)
    for order in orders:
        receipt = settle(till_of(access, order), order, receipts, clock)
        if receipt is not None:
            found.append((order, receipt))
        elif order.id in abandon and may_abandon(order, clock.now()):
            receipts.save_receipt(
                Receipt(order=order.id, outcome="abandoned", at=clock.now(), reason="by hand")
            )
        else:
            raise UnclearPurchaseError(
                f"order {order.id}: was begun at {order.ordered_at:%Y-%m-%d %H:%M} UTC for "
                f"{order.goods.fee} {order.goods.currency}, and nothing with its tag is listed in "
                f"{order.goods.region}. It may still appear: run the command again. An hour after "
                f"it was begun, --abandon {order.id} gives it up."
            )
    return found


def _require_open(receipts: Receipts, orders: Sequence[Order], abandon: Collection[str]) -> None:
    """Refuse a slip in an order's name: whoever gave it believes that the order is given up."""
    known = {order.id for order in orders}
    ended = {receipt.order: receipt.outcome for receipt in receipts.receipts()}
    for name in abandon:
        if name not in known:
            what = f"has ended: {ended[name]}" if name in ended else "is no order made here"
            raise ConfigError(
                f"--abandon {name}: {what}. Nothing was bought. Open orders: "
                f"{', '.join(sorted(known)) or 'none'}. Name one of them, or leave it out."
            )


def require_no_idle_blocks(
    blocks: Sequence[Block], claims: Sequence[Claim], fleet: str, besides: Collection[str]
) -> None:
    """Refuse to buy while a block of ours serves no rack: it may be what somebody wants to buy."""
    over = FAILED_STATES | OVER_STATES
    idle = [
        block
        for block in blocks
        if belongs_to(fleet, block.tags)
        and block.state not in over
        and not served_racks(block, claims)
        and block.id not in besides
        and not set(block.reservations) & set(besides)
    ]
    if idle:
        listed = ", ".join(f"{block.id} ({block.state})" for block in idle)
        raise ConfigError(
            f"{listed}: bought for {fleet} already, and no rack of the fleet file uses it. Nothing "
            "was bought. Write it into the fleet file, or give --besides for each to buy more."
        )


def require_listed(
    receipts: Receipts, blocks: Sequence[Block], fleet: str, besides: Collection[str], now: datetime
) -> None:
    """Refuse to buy while a block that was just bought from here is not listed yet."""
    listed = {block.id for block in blocks}
    ours = {order.id for order in receipts.orders() if order.fleet == fleet}
    for receipt in receipts.receipts():
        if receipt.order not in ours or now - receipt.at >= SETTLES_WITHIN:
            continue
        for item in receipt.bought:
            known = {item.block, *item.reservations}
            if item.block and item.block not in listed and not known & set(besides):
                raise ConfigError(
                    f"{item.block}: was bought at {receipt.at:%Y-%m-%d %H:%M} UTC by order "
                    f"{receipt.order}, and is not listed yet. Nothing was bought. Wait for it "
                    "(k3fleet capacity status), or give --besides for it to buy more."
                )


def require_end_known(
    access: AwsAccess, receipts: Receipts, block: Block, reservation: str, written: datetime | None
) -> None:
    """Refuse to extend what was extended already, by whomever: the fleet file says until when."""
    if written is None:
        raise ConfigError(
            f"{reservation}: its rack has no capacity_ends_at in the fleet file, by which a second "
            "extension is told from the first. Nothing was bought. Write the block's end there."
        )
    ends = [block.ends_at] if block.ends_at else []
    unpaid = set()
    for item in all_extensions(access, block.region, reservation):
        if item.get("CapacityBlockExtensionStatus") == "payment-failed":
            unpaid.add(item.get("CapacityBlockExtensionOfferingId"))
        elif until := item.get("CapacityBlockExtensionEndDate"):
            ends.append(until)
    bought = {receipt.order for receipt in receipts.receipts() if receipt.outcome == "bought"}
    ends += [
        order.goods.ends_at
        for order in receipts.orders()
        if order.id in bought
        and isinstance(order.goods, Extension)
        and order.goods.reservation == reservation
        and order.goods.id not in unpaid
    ]
    if ends and max(ends) - written > SAME_END:
        raise ConfigError(
            f"{reservation}: was extended already, until {utc_text(max(ends))}; the fleet file "
            f"says {utc_text(written)}. Nothing was bought. Write the new end there, then extend "
            "it again if it is to last longer still."
        )


def wait_for_payment(
    access: AwsAccess, region: str, bought: Sequence[Bought], clock: Clock, within: timedelta
) -> list[Block]:
    """Wait until blocks are scheduled or active; some are still pending when time is up.

    Raises PurchaseError when a payment failed.
    """
    wanted = {item.block for item in bought if item.block}
    seen: list[Block] = []

    def settled() -> bool:
        seen[:] = [item for item in read_blocks(access, region) if item.id in wanted]
        failed = [item for item in seen if item.state in FAILED_STATES | OVER_STATES]
        if failed:
            listed = ", ".join(f"{item.id} is {item.state}" for item in failed)
            raise PurchaseError(
                f"aws {region}: {listed}. It gives no rack. "
                "Look at the account's payment method, then buy again."
            )
        return len(seen) == len(wanted) and all(item.state in GOOD_STATES for item in seen)

    clock.until(settled, within=within, every_s=POLL_EVERY_S)
    return seen


def wait_for_extension(
    access: AwsAccess, extension: Extension, clock: Clock, within: timedelta
) -> str:
    """Wait until an extension is paid, and give the last state; raises PurchaseError when not."""
    seen = ["unknown"]

    def settled() -> bool:
        for item in extension_history(access, extension):
            seen[0] = str(item.get("CapacityBlockExtensionStatus", "unknown"))
        if seen[0] == "payment-failed":
            raise PurchaseError(
                f"{extension.reservation}: the payment of its extension failed; its end has not "
                "moved. Look at the account's payment method, then extend again."
            )
        return seen[0] == EXTENSION_PAID

    clock.until(settled, within=within, every_s=POLL_EVERY_S)
    return seen[0]


def require_opted_in(access: AwsAccess, offer: Offer) -> None:
    """Refuse an offer in a zone that the account may not use: paid, and no node would start."""
    zone = read_zones(access, offer.region).get(offer.zone)
    if zone is not None and zone.status == OPTED_OUT:
        raise ConfigError(
            f"{offer.id}: the account has not opted in to {zone.group}. Nothing was bought. "
            "Run `k3fleet capacity find` with --opt-in."
        )


def own_block(access: AwsAccess, fleet: Fleet, reservation: str) -> tuple[RegionSpec, Block]:
    """Find the block of a reservation; refuse one that is over, or that is not this fleet's."""
    for region, cluster in require_aws(fleet):
        if reservation not in {
            claim.reservation for claim in aws_claims(fleet) if claim.fleet_region == region.name
        }:
            continue
        check_account(access, cluster.region, cluster.account)
        for block in read_blocks(access, cluster.region):
            if reservation in block.reservations:
                if block.state not in GOOD_STATES:
                    raise ConfigError(
                        f"{reservation}: its block {block.id} is {block.state}. "
                        "Nothing was bought. Buy another block."
                    )
                return region, block
        raise ConfigError(
            f"{reservation}: the account has no such block in {cluster.region}. "
            "Nothing was bought. Correct the id in the fleet file."
        )
    raise ConfigError(
        f"{reservation}: serves no rack of {fleet.path}. Nothing was bought. "
        "Give a reservation that the fleet file names."
    )
