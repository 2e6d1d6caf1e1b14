"""Do what comes before and after a purchase: old orders, blocks that lie idle, the payment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from fleet.capacity.blocks import FAILED_STATES, GOOD_STATES, OVER_STATES, Block, Claim
from fleet.capacity.offers import Offer
from fleet.capacity.order import Bought, Extension, Order, Receipt, belongs_to, may_abandon
from fleet.capacity.verdicts import served_racks
from fleet.errors import ConfigError, PurchaseError, UnclearPurchaseError
from infra.capacity.aws_access import AwsAccess
from infra.capacity.aws_blocks import read_blocks
from infra.capacity.clock import Clock
from infra.capacity.purchase import extension_history, settle, till_of
from infra.capacity.receipts import Receipts
from infra.capacity.zones import OPTED_OUT, read_zones

POLL_EVERY_S = 15.0
EXTENSION_PAID = "payment-succeeded"


def settle_open_orders(
    access: AwsAccess, receipts: Receipts, clock: Clock, *, abandon: Collection[str]
) -> list[tuple[Order, Receipt]]:
    """Find out how earlier orders ended, and give those that turn out to be bought.

    Raises UnclearPurchaseError for one that cannot be told and is not abandoned.
    """
    found = []
    for order in receipts.open_orders():
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
