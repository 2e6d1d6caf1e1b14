"""Write down an order before money is spent, so that it is found again whatever happens then.

EC2's purchase call takes no token that would make a second one harmless. So an order
has an id of its own, which goes with the purchase as a tag, and into a file before that.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from pydantic import AwareDatetime

from fleet.capacity.offers import Money, Offer
from fleet.errors import ConfigError
from fleet.schema import FileModel, Text

TAG_FLEET = "k3fleet:fleet"
TAG_REGION = "k3fleet:region"
TAG_RACK = "k3fleet:rack"
TAG_MANAGED = "k3fleet:managed-by"
TAG_ORDER = "k3fleet:order"
# What is bought may be listed late (EC2 is eventually consistent); much longer than it ever takes.
SETTLES_WITHIN = timedelta(hours=1)
# Commas and lows stand between thousands only: `500000,00` is not fifty million.
_FEE = re.compile(r"(?:[0-9]{1,12}|[0-9]{1,3}(?:[,_][0-9]{3}){1,3})(?:\.[0-9]{1,6})?", re.ASCII)


class Extension(FileModel):
    """More time for a reservation, as it was quoted."""

    id: Text
    region: Text
    reservation: Text
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    fee: Money
    currency: Text


class Order(FileModel):
    """What is about to be bought: written before the call."""

    id: Text
    fleet: Text
    fleet_region: Text
    racks: tuple[Text, ...]  # of the fleet file; empty: not decided yet
    account: Text
    goods: Offer | Extension
    max_fee: Money
    ordered_at: AwareDatetime


class Bought(FileModel):
    """One block as the cloud sold it."""

    block: str
    reservations: tuple[str, ...]
    ends_at: AwareDatetime | None = None


class Receipt(FileModel):
    """How an order ended: written right after the call, or when a later run found out."""

    order: Text
    outcome: Literal["bought", "refused", "abandoned"]
    bought: tuple[Bought, ...] = ()
    found_later: bool = False  # by its tag, after an answer that never came
    reason: str = ""
    at: AwareDatetime


def order_id(now: datetime, chance: random.Random) -> str:
    """Name an order: sortable by time, and never twice."""
    return f"{now:%Y%m%dT%H%M%SZ}-{chance.getrandbits(48):012x}"


def tags(order: Order) -> dict[str, str]:
    """Give the tags of what is bought; several racks are separated by spaces."""
    found = {
        TAG_FLEET: order.fleet,
        TAG_REGION: order.fleet_region,
        TAG_MANAGED: "k3fleet",
        TAG_ORDER: order.id,
    }
    if order.racks:
        found[TAG_RACK] = " ".join(order.racks)
    return found


def belongs_to(fleet: str, tags_of_block: Mapping[str, str]) -> bool:
    """Say whether a block carries a fleet's tag."""
    return tags_of_block.get(TAG_FLEET) == fleet


def read_fee(text: str, option: str) -> Decimal:
    """Read a sum of money; raise ConfigError for anything that is none."""
    found = _FEE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{option}: {text!r} is no sum of money. Write for example 123456.78.")
    return Decimal(found[0].replace(",", "").replace("_", ""))


def check_fee(goods: Offer | Extension, *, max_fee: Decimal, expect_fee: Decimal | None) -> None:
    """Refuse a price above the limit, and one that is not what somebody was told."""
    price = f"{goods.fee} {goods.currency}"
    if goods.fee > max_fee:
        raise ConfigError(
            f"{goods.id}: costs {price}, above --max-fee {max_fee}. "
            "Nothing was bought. Raise the limit, or take another offer."
        )
    if expect_fee is not None and goods.fee != expect_fee:
        raise ConfigError(
            f"{goods.id}: costs {price}, not --expect-fee {expect_fee}. "
            "Nothing was bought. Look at the offer again."
        )


def may_abandon(order: Order, now: datetime) -> bool:
    """Say whether an order without an answer is old enough that what it bought would be listed."""
    return now - order.ordered_at >= SETTLES_WITHIN
