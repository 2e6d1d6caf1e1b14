"""What the commands of `k3fleet capacity` share: their surroundings, and how money is agreed to."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, can_ask
from cli.wiring import capacity_clock, chance, work_folder
from cli.work_dir import work_dir_option
from fleet.capacity.offers import Offer
from fleet.capacity.order import Extension, check_fee, read_fee
from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from infra.capacity.aws_access import AwsAccess, default_access
from infra.capacity.clock import Clock
from infra.capacity.receipts import Receipts
from lab.work_folder import mark

__all__ = [
    "FLEET_FILE",
    "YES",
    "Desk",
    "agree",
    "chance",
    "desk",
    "money_options",
    "work_dir_option",
]

FLEET_FILE = click.argument(
    "fleet_file", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every command needs: the fleet, AWS, the receipts, and the time."""

    fleet: Fleet
    receipts: Receipts
    clock: Clock

    @property
    def access(self) -> AwsAccess:
        """Reach AWS with this machine's credentials; raises CloudError when there are none."""
        return default_access()


def desk(fleet_file: Path, work_dir: Path | None) -> Desk:
    """Load the fleet and reach for AWS; nothing is asked yet."""
    fleet = load_fleet(fleet_file)
    folder = work_folder(fleet, work_dir)
    mark(folder)
    return Desk(
        fleet=fleet,
        receipts=Receipts(folder / "capacity"),
        clock=capacity_clock(),
    )


def money_options(command: Any) -> Any:
    """Add the options without which no money is spent."""
    for option in (
        click.option("--expect-fee", metavar="FEE", help="The fee you were told; with --yes."),
        click.option(
            "--max-fee", metavar="FEE", required=True, help="Never pay more, in the offer's money."
        ),
        YES,
    ):
        command = option(command)
    return command


def agree(goods: Offer | Extension, count: int, money: dict[str, Any]) -> Decimal:
    """Make sure that somebody knows the price; raise ConfigError else. Returns the limit.

    On a terminal fee and count are typed; without one they come as --yes --expect-fee.
    """
    limit, told = fees(money)
    check_fee(goods, max_fee=limit, expect_fee=told)
    if money["yes"]:
        return limit
    if not can_ask():
        raise ConfigError(
            "nobody can be asked here, and nothing was bought. "
            f"Give --yes --expect-fee {goods.fee}."
        )
    wanted = f"{goods.fee} {count}"
    typed = click.prompt(
        f"This cannot be cancelled. Type fee and number of racks to pay: {wanted}",
        prompt_suffix="\n> ",
        err=True,
    )
    if " ".join(str(typed).split()) != wanted:
        raise ConfigError(f"{typed!r} is not {wanted!r}. Nothing was bought.")
    return limit


def fees(money: dict[str, Any]) -> tuple[Decimal, Decimal | None]:
    """Read the limit and the expected fee; --yes needs both."""
    limit = read_fee(money["max_fee"], "--max-fee")
    if money["expect_fee"] is None:
        if money["yes"]:
            raise ConfigError("--yes: needs --expect-fee FEE, so that the price is known.")
        return limit, None
    return limit, read_fee(money["expect_fee"], "--expect-fee")
