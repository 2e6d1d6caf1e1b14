"""Spend money once: an order in a file, one call, and whatever comes of it in a file.

The rule of this module: after the call was sent, only a clear refusal means that nothing was
bought. Everything else is looked up by the order's mark, and never tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Protocol

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from fleet.capacity.blocks import Block
from fleet.capacity.offers import Offer
from fleet.capacity.order import TAG_ORDER, Bought, Extension, Order, Receipt, tags
from fleet.errors import CloudError, FleetError, PurchaseError, UnclearPurchaseError
from infra.capacity.aws_access import (
    UNKNOWN_CODE,
    AwsAccess,
    client_error,
    error_code,
    translated,
)
from infra.capacity.aws_blocks import read_blocks
from infra.capacity.aws_market import extension_history
from infra.capacity.clock import Clock
from infra.capacity.receipts import Receipts

PLATFORM = "Linux/UNIX"  # EKS's Amazon Linux
# How long an unclear purchase is looked for before somebody has to come back.
LOOK = timedelta(minutes=2)
LOOK_EVERY_S = 10.0
_DRY_RUN_PASSED = "DryRunOperation"
# Answers of AWS's front door, given before a request is carried out.
_TURNED_AWAY = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException"})
_NEVER_SENT = (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)


class Till(Protocol):
    """How one kind of goods is bought."""

    def rehearse(self) -> None:
        """Ask whether we may; raises CloudError when not. Buys nothing."""
        ...

    def buy(self) -> tuple[Bought, ...]:
        """Send the purchase, once."""
        ...

    def find(self) -> tuple[Bought, ...]:
        """Look for what this order has bought already; empty: nothing is listed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTill:
    """Buy a capacity block; the order's id is a tag on it."""

    access: AwsAccess
    order: Order
    offer: Offer

    def rehearse(self) -> None:
        """See `Till`."""
        client = self.access.spending(self.offer.region)
        _dry(lambda: client.purchase_capacity_block(**self._asked(), DryRun=True), self.offer)

    def buy(self) -> tuple[Bought, ...]:
        """See `Till`."""
        client = self.access.spending(self.offer.region)
        answer = client.purchase_capacity_block(**self._asked())
        return _bought(answer)

    def find(self) -> tuple[Bought, ...]:
        """See `Till`."""
        blocks = read_blocks(self.access, self.offer.region)
        return tuple(_as_bought(item) for item in blocks if is_of(self.order, item))

    def _asked(self) -> dict[str, Any]:
        marks = [{"Key": key, "Value": value} for key, value in tags(self.order).items()]
        return {
            "CapacityBlockOfferingId": self.offer.id,
            "InstancePlatform": PLATFORM,
            "TagSpecifications": [{"ResourceType": "capacity-block", "Tags": marks}],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionTill:
    """Buy more time; an extension takes no tags, so its offering's id is the mark."""

    access: AwsAccess
    extension: Extension

    def rehearse(self) -> None:
        """See `Till`."""
        client = self.access.spending(self.extension.region)
        _dry(
            lambda: client.purchase_capacity_block_extension(**self._asked(), DryRun=True),
            self.extension,
        )

    def buy(self) -> tuple[Bought, ...]:
        """See `Till`."""
        client = self.access.spending(self.extension.region)
        answer = client.purchase_capacity_block_extension(**self._asked())
        return self._read(answer)

    def find(self) -> tuple[Bought, ...]:
        """See `Till`."""
        history = extension_history(self.access, self.extension)
        paid = [i for i in history if i.get("CapacityBlockExtensionStatus") != "payment-failed"]
        return self._read({"CapacityBlockExtensions": paid})

    def _asked(self) -> dict[str, str]:
        return {
            "CapacityBlockExtensionOfferingId": self.extension.id,
            "CapacityReservationId": self.extension.reservation,
        }

    def _read(self, answer: Mapping[str, Any]) -> tuple[Bought, ...]:
        return tuple(
            Bought(
                block="",
                reservations=(item.get("CapacityReservationId", self.extension.reservation),),
                ends_at=item.get("CapacityBlockExtensionEndDate"),
            )
            for item in answer.get("CapacityBlockExtensions", ())
            if item.get("CapacityBlockExtensionOfferingId") == self.extension.id
        )


def till_of(access: AwsAccess, order: Order) -> Till:
    """Choose how an order's goods are bought."""
    if isinstance(order.goods, Extension):
        return ExtensionTill(access=access, extension=order.goods)
    return BlockTill(access=access, order=order, offer=order.goods)


def is_of(order: Order, block: Block) -> bool:
    """Say whether a block was bought by an order."""
    return block.tags.get(TAG_ORDER) == order.id


def purchase(till: Till, order: Order, receipts: Receipts, clock: Clock) -> Receipt:
    """Buy, and write down what came of it.

    Raises PurchaseError when nothing was bought, UnclearPurchaseError when nobody knows.
    """
    receipts.save_order(order)
    try:
        bought = till.buy()
    except Exception as error:
        if (refusal := _refusal(error)) is not None:
            receipts.save_receipt(
                Receipt(order=order.id, outcome="refused", reason=refusal, at=clock.now())
            )
            raise PurchaseError(
                f"{order.goods.id}: was not bought: {refusal}. "
                "Nothing was paid. Run `k3fleet capacity find` for other offers."
            ) from error
        return _look(till, order, receipts, clock, error)
    if not any(item.reservations for item in bought):
        return _look(till, order, receipts, clock, _EmptyAnswerError())
    receipt = Receipt(order=order.id, outcome="bought", bought=bought, at=clock.now())
    _keep(receipts, receipt)
    return receipt


def settle(till: Till, order: Order, receipts: Receipts, clock: Clock) -> Receipt | None:
    """Find out how an earlier order ended, and write it down; None: it still cannot be told."""
    bought = till.find()
    if not bought:
        return None
    receipt = Receipt(
        order=order.id, outcome="bought", bought=bought, found_later=True, at=clock.now()
    )
    _keep(receipts, receipt)
    return receipt


class _EmptyAnswerError(Exception):
    """An answer says yes and names nothing: a proxy's, perhaps."""


def _keep(receipts: Receipts, receipt: Receipt) -> None:
    """Write a receipt of what was paid; without room for it the order stays open, and is found."""
    try:
        receipts.save_receipt(receipt)
    except FleetError as error:
        named = ", ".join(name for item in receipt.bought for name in item.reservations)
        raise UnclearPurchaseError(
            f"order {receipt.order}: was bought ({named}), but its receipt cannot be written: "
            f"{error.__cause__}. Free space, then run the same command again: it finds the order "
            "and buys nothing twice."
        ) from error


def _look(till: Till, order: Order, receipts: Receipts, clock: Clock, lost: Exception) -> Receipt:
    """Look for what an unclear purchase bought; ask only, whatever happens."""
    found: list[Receipt] = []

    def is_there() -> bool:
        try:
            receipt = settle(till, order, receipts, clock)
        except CloudError:
            return False
        found.extend([receipt] if receipt else [])
        return bool(found)

    if clock.until(is_there, within=LOOK, every_s=LOOK_EVERY_S):
        return found[0]
    raise UnclearPurchaseError(
        f"order {order.id}: the purchase of {order.goods.id} was sent and its answer never came "
        f"({type(lost).__name__}). It may have been bought for {order.goods.fee} "
        f"{order.goods.currency}. Run the same command again: it looks for the order and buys "
        "nothing twice."
    ) from lost


def _refusal(error: Exception) -> str | None:
    """Say why nothing was bought; None when that is not certain."""
    if isinstance(error, _NEVER_SENT):
        return f"it was not sent ({type(error).__name__})"
    if isinstance(error, ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = error_code(error)
        is_refusal = 400 <= status < 500 and status != HTTPStatus.REQUEST_TIMEOUT
        # Without a word of AWS's for it, somebody else has answered: a proxy, a portal.
        if (is_refusal and not code.isdigit() and code != UNKNOWN_CODE) or code in _TURNED_AWAY:
            return str(client_error(error, "aws")).removeprefix("aws: ").rstrip(".")
    return None


def _dry(call: Callable[[], object], goods: Offer | Extension) -> None:
    """Send a purchase as a dry run: AWS answers with an error in any case."""
    try:
        with translated(f"aws {goods.region}"):
            try:
                call()
            except ClientError as error:
                if error_code(error) == _DRY_RUN_PASSED:
                    return
                raise
    except CloudError as error:
        raise type(error)(f"{error} Nothing was bought.") from error
    raise CloudError(
        f"aws {goods.region}: answered a dry run as if it were none. "
        "Look at the blocks in the console before anything else."
    )


def _bought(answer: Mapping[str, Any]) -> tuple[Bought, ...]:
    """Read the blocks of an answer; an older form of it has one reservation only."""
    blocks = tuple(
        Bought(
            block=item.get("CapacityBlockId", ""),
            reservations=tuple(item.get("CapacityReservationIds", ())),
            ends_at=item.get("EndDate"),
        )
        for item in answer.get("CapacityBlocks", ())
    )
    if blocks:
        return blocks
    single = answer.get("CapacityReservation", {})
    return (
        Bought(
            block=single.get("CapacityBlockId", ""),
            reservations=tuple(filter(None, (single.get("CapacityReservationId"),))),
            ends_at=single.get("EndDate"),
        ),
    )


def _as_bought(block: Block) -> Bought:
    return Bought(block=block.id, reservations=block.reservations, ends_at=block.ends_at)
