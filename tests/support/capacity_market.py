"""A market for capacity blocks inside moto, which has none: offers, purchases, payments, health.

Its methods are added to moto's own EC2, so that real boto3 speaks to it, in this process
(`mock_aws`) or over HTTP (`ThreadedMotoServer`). It has a ledger of every purchase that it
accepted: what a test must look at, not at what the code says of itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import service_models
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.servicequotas.responses import ServiceQuotasResponse

service_models.share()

RACK = "u-p6e-gb300x72"
ZONE = "us-east-1-dfw-2a"
START = datetime(2026, 12, 10, 11, 30, tzinfo=UTC)


def offer(name: str, fee: str = "500000.00", **changes: Any) -> dict[str, Any]:
    """Make an offer of one rack for a week, as EC2 writes it."""
    hours = changes.pop("hours", 168)
    start = changes.pop("start", START)
    racks = changes.pop("racks", 1)
    return {
        "CapacityBlockOfferingId": name,
        "InstanceType": "p6e-gb300.36xlarge",
        "AvailabilityZone": ZONE,
        "InstanceCount": 18 * racks,
        "StartDate": start,
        "EndDate": start + timedelta(hours=hours),
        "CapacityBlockDurationHours": hours,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
        "UltraserverType": RACK,
        "UltraserverCount": racks,
        "ZoneType": "local-zone",
        **changes,
    }


@dataclass
class Market:
    """What EC2 would sell, and what it has sold."""

    offers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by region
    extensions: list[dict[str, Any]] = field(default_factory=list)
    blocks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by region
    health: dict[str, dict[str, Any]] = field(default_factory=dict)  # by block
    quotas: list[dict[str, Any]] = field(default_factory=list)
    opted_in: list[str] = field(default_factory=lambda: ["us-east-1-dfw-2"])
    # What was accepted, and paid: the one thing that must never have too many entries.
    ledger: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # every action, in order
    # After a purchase was accepted, before its answer is sent.
    after_purchase: Callable[[], None] = lambda: None
    refuses: str = ""  # an error code of EC2: nothing is sold
    states: tuple[str, ...] = (
        "payment-pending",
        "scheduled",
    )  # a block's, look by look; last stays
    extension_state: str = "payment-succeeded"
    hidden_looks: int = 0  # how often a new block is not listed yet
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def sell(self, region: str, marks: dict[str, str], goods: dict[str, Any]) -> dict[str, Any]:
        """Take the money, and make the blocks of an offer."""
        number = next(self._numbers)
        block = {
            "CapacityBlockId": f"cb-{number:017x}",
            "UltraserverType": goods["UltraserverType"],
            "AvailabilityZone": goods["AvailabilityZone"],
            "CapacityReservationIds": [
                f"cr-{number:09x}{rack:08x}" for rack in range(goods["UltraserverCount"])
            ],
            "StartDate": goods["StartDate"],
            "EndDate": goods["EndDate"],
            "State": self.states[0],
            "Tags": [{"Key": key, "Value": value} for key, value in marks.items()],
            "_states": list(self.states),
            "_hidden": self.hidden_looks,
        }
        self.ledger.append({"offer": goods["CapacityBlockOfferingId"], "tags": marks})
        self.blocks.setdefault(region, []).append(block)
        return block

    def listed(self, region: str) -> list[dict[str, Any]]:
        """Look at the blocks; each look may move them on."""
        shown = []
        for block in self.blocks.get(region, []):
            if block.get("_hidden", 0) > 0:
                block["_hidden"] -= 1
                continue
            states = block.get("_states", [])
            if len(states) > 1:
                states.pop(0)
                block["State"] = states[0]
            shown.append(_public(block))
        return shown


def block(name: str = "cb-1", reservation: str = "cr-0123456789abcdef0", **changes: Any) -> Any:
    """Make a block that was bought earlier."""
    return {
        "CapacityBlockId": name,
        "UltraserverType": RACK,
        "AvailabilityZone": ZONE,
        "CapacityReservationIds": [reservation],
        "StartDate": START,
        "EndDate": START + timedelta(days=7),
        "State": "active",
        "Tags": [{"Key": "k3fleet:fleet", "Value": "prod"}],
        **changes,
    }


def _public(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if not key.startswith("_")}


def _tags(specifications: list[dict[str, Any]]) -> dict[str, str]:
    return {
        tag["Key"]: tag["Value"]
        for specification in specifications
        if specification["ResourceType"] == "capacity-block"
        for tag in specification.get("Tags", [])
    }


def _refuse(code: str, text: str = "refused by the market") -> EC2ClientError:
    return EC2ClientError(code, text)


class _Answers:
    """The actions, as methods of moto's response class."""

    def __init__(self, market: Market) -> None:
        self.market = market

    def methods(self) -> dict[str, Callable[[Any], ActionResult]]:
        """Give a function for each action that moto does not have."""
        names = [name for name in vars(_Answers) if name.split("_")[0] in ("describe", "purchase")]
        return {name: self._method(name) for name in [*names, "modify_availability_zone_group"]}

    def _method(self, name: str) -> Callable[[Any], ActionResult]:
        answer = getattr(self, name)

        def method(response: Any) -> ActionResult:
            self.market.asked.append(name)
            return ActionResult(answer(response))

        return method

    def describe_capacity_block_offerings(self, asked: Any) -> dict[str, Any]:
        """List what fits the question."""
        first, last = _time(asked, "StartDateRange"), _time(asked, "EndDateRange")
        found = [
            goods
            for goods in self.market.offers.get(asked.region, [])
            if goods["UltraserverType"] == asked._get_param("UltraserverType")
            and goods["UltraserverCount"] == int(asked._get_param("UltraserverCount"))
            and goods["CapacityBlockDurationHours"]
            == int(asked._get_param("CapacityDurationHours"))
            and first <= goods["StartDate"]
            and goods["EndDate"] <= last
        ]
        return {"CapacityBlockOfferings": found}

    def purchase_capacity_block(self, asked: Any) -> dict[str, Any]:
        """Sell an offer that is still there."""
        asked.error_on_dryrun()
        if self.market.refuses:
            raise _refuse(self.market.refuses)
        name = asked._get_param("CapacityBlockOfferingId")
        for goods in self.market.offers.get(asked.region, []):
            if goods["CapacityBlockOfferingId"] == name:
                marks = _tags(asked._get_param("TagSpecifications", []))
                sold = _public(self.market.sell(asked.region, marks, goods))
                self.market.after_purchase()
                return {"CapacityBlocks": [sold]}
        raise _refuse("InvalidCapacityBlockOfferingId.NotFound", "it is sold")

    def describe_capacity_blocks(self, asked: Any) -> dict[str, Any]:
        """List blocks."""
        return {"CapacityBlocks": self.market.listed(asked.region)}

    def describe_capacity_block_status(self, asked: Any) -> dict[str, Any]:
        """List health."""
        ids = [item["CapacityBlockId"] for item in self.market.blocks.get(asked.region, [])]
        well = {"InterconnectStatus": "ok", "TotalCapacity": 18, "TotalAvailableCapacity": 18}
        return {
            "CapacityBlockStatuses": [
                {
                    "CapacityBlockId": name,
                    **well,
                    "TotalUnavailableCapacity": 0,
                    **self.market.health.get(name, {}),
                }
                for name in ids
            ]
        }

    def describe_capacity_block_extension_offerings(self, asked: Any) -> dict[str, Any]:
        """List extensions."""
        del asked
        return {"CapacityBlockExtensionOfferings": self.market.extensions}

    def purchase_capacity_block_extension(self, asked: Any) -> dict[str, Any]:
        """Sell more time."""
        asked.error_on_dryrun()
        if self.market.refuses:
            raise _refuse(self.market.refuses)
        name = asked._get_param("CapacityBlockExtensionOfferingId")
        goods = next(
            item
            for item in self.market.extensions
            if item["CapacityBlockExtensionOfferingId"] == name
        )
        reservation = asked._get_param("CapacityReservationId")
        self.market.ledger.append({"offer": name, "reservation": reservation})
        self.market.after_purchase()
        return self._extended(name, goods, reservation)

    def describe_capacity_block_extension_history(self, asked: Any) -> dict[str, Any]:
        """List the extensions that were sold."""
        del asked
        sold = [entry for entry in self.market.ledger if "reservation" in entry]
        answers = [
            self._extended(entry["offer"], goods, entry["reservation"])["CapacityBlockExtensions"]
            for entry in sold
            for goods in self.market.extensions
            if goods["CapacityBlockExtensionOfferingId"] == entry["offer"]
        ]
        return {"CapacityBlockExtensions": [item for answer in answers for item in answer]}

    def _extended(self, name: str, goods: dict[str, Any], reservation: str) -> dict[str, Any]:
        return {
            "CapacityBlockExtensions": [
                {
                    "CapacityReservationId": reservation,
                    "CapacityBlockExtensionOfferingId": name,
                    "CapacityBlockExtensionStatus": self.market.extension_state,
                    "CapacityBlockExtensionEndDate": goods["CapacityBlockExtensionEndDate"],
                }
            ]
        }

    def describe_availability_zones(self, asked: Any) -> dict[str, Any]:
        """List a regional zone, and the Local Zone with the racks."""
        status = "opted-in" if "us-east-1-dfw-2" in self.market.opted_in else "not-opted-in"
        return {
            "AvailabilityZones": [
                {
                    "ZoneName": f"{asked.region}a",
                    "GroupName": asked.region,
                    "OptInStatus": "opt-in-not-required",
                    "ZoneType": "availability-zone",
                },
                {
                    "ZoneName": ZONE,
                    "GroupName": "us-east-1-dfw-2",
                    "OptInStatus": status,
                    "ZoneType": "local-zone",
                },
            ]
        }

    def modify_availability_zone_group(self, asked: Any) -> dict[str, Any]:
        """Opt in."""
        self.market.opted_in.append(asked._get_param("GroupName"))
        return {"Return": True}


def _time(asked: Any, name: str) -> datetime:
    value = asked._get_param(name)
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@contextmanager
def opened(market: Market) -> Iterator[Market]:
    """Let moto's EC2 answer from this market while it is open."""

    def list_service_quotas(response: Any) -> ActionResult:
        del response
        return ActionResult({"Quotas": market.quotas})

    with (
        mock.patch.multiple(EC2Response, create=True, **_Answers(market).methods()),
        mock.patch.object(
            ServiceQuotasResponse, "list_service_quotas", list_service_quotas, create=True
        ),
    ):
        yield market
