"""Compare what a cloud offers: capacity blocks of whole racks, by their price per rack-hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated

from pydantic import AwareDatetime, Field

from fleet.errors import ConfigError
from fleet.schema import FileModel, Positive, Text

# EC2: in steps of a day up to 14 days, then of 7 days up to 182 (DescribeCapacityBlockOfferings).
_DAILY_UNTIL_DAYS = 14
_WEEKLY_UNTIL_DAYS = 182
# EC2 user guide: a block starts at most eight weeks ahead.
HORIZON = timedelta(weeks=8)
# One question gives few answers, the earliest first; asked week by week, all starts are seen.
WINDOW = timedelta(days=7)
_CENT = Decimal("0.01")
Money = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=6)]


class Offer(FileModel):
    """A block of racks that can be bought, as it was quoted."""

    id: Text
    region: Text  # the cloud's own name, for example us-east-1
    zone: Text
    zone_type: str = ""  # availability-zone or local-zone
    rack_type: Text  # UltraServer type
    racks: Positive
    instance_type: str = ""
    instances: Positive
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    hours: Annotated[Decimal, Field(gt=0)]
    fee: Money
    currency: Text

    @property
    def fee_per_rack_hour(self) -> Decimal:
        """The whole fee over all racks and hours, to the cent."""
        return (self.fee / (self.racks * self.hours)).quantize(_CENT, ROUND_HALF_UP)

    def same_goods(self, other: Offer) -> bool:
        """Say whether two offers are the same racks for the same money, whatever their ids."""
        return self.model_copy(update={"id": other.id}) == other


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to one region: that many racks, for so long, starting in a window."""

    region: str
    rack_type: str
    racks: int
    hours: int
    starts_after: datetime
    ends_before: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What somebody wants to buy."""

    rack_type: str
    racks: int
    hours: tuple[int, ...]
    starts_after: datetime
    starts_before: datetime

    def questions(self, regions: Iterable[str]) -> Iterator[Question]:
        """Split the search into what a cloud can be asked: regions x durations x weeks."""
        for region in dict.fromkeys(regions):
            for hours in self.hours:
                start = self.starts_after
                while start < self.starts_before:
                    until = min(start + WINDOW, self.starts_before)
                    yield Question(
                        region=region,
                        rack_type=self.rack_type,
                        racks=self.racks,
                        hours=hours,
                        starts_after=start,
                        ends_before=until + timedelta(hours=hours),
                    )
                    start = until


def check_hours(seconds: float) -> int:
    """Turn a duration into hours that blocks are sold for; raise ConfigError for others."""
    days, rest = divmod(round(seconds), 86_400)
    daily = 1 <= days <= _DAILY_UNTIL_DAYS
    weekly = _DAILY_UNTIL_DAYS < days <= _WEEKLY_UNTIL_DAYS and days % 7 == 0
    if rest or not (daily or weekly):
        raise ConfigError(
            f"--for: blocks are not sold for {Decimal(round(seconds)) / 3600:.4g} hours. "
            f"Give 1d to {_DAILY_UNTIL_DAYS}d, or a multiple of 7d up to {_WEEKLY_UNTIL_DAYS}d."
        )
    return days * 24


def ranked(offers: Iterable[Offer]) -> list[Offer]:
    """Sort by currency, price per rack-hour and start; the same offer is listed once.

    Prices in two currencies do not compare, and no rate is guessed.
    """
    unique = {(offer.region, offer.id): offer for offer in offers}
    return sorted(
        unique.values(),
        key=lambda offer: (
            offer.currency,
            offer.fee / (offer.racks * offer.hours),
            offer.starts_at,
            offer.id,
        ),
    )
