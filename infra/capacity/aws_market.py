"""Ask EC2 what capacity blocks it sells, in many regions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from fleet.capacity.offers import Offer, Question, Search, ranked
from fleet.capacity.order import Extension
from fleet.errors import CloudError, PurchaseError
from infra.capacity.aws_access import AwsAccess, translated

THREADS = 8  # EC2 lets an account ask only some times a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was offered, and which regions could not be asked."""

    offers: list[Offer]
    failed: dict[str, str]  # region -> why


def find_offers(
    access: AwsAccess,
    search: Search,
    regions: Iterable[str],
    *,
    told: Callable[[str], None] = lambda _: None,
) -> Found:
    """Ask all regions; one that cannot be asked does not hide the others' offers."""
    questions = list(search.questions(regions))
    clients = {region: access.asking("ec2", region) for region in dict.fromkeys(regions)}
    offers: list[Offer] = []
    failed: dict[str, str] = {}
    pool = ThreadPoolExecutor(THREADS)
    try:
        answers = [(item, pool.submit(ask, clients[item.region], item)) for item in questions]
        for number, (question, answer) in enumerate(answers, start=1):
            try:
                offers += answer.result()
            except CloudError as error:
                failed.setdefault(question.region, str(error))
            told(f"{number} of {len(answers)} questions answered")
    finally:
        pool.shutdown(
            cancel_futures=True
        )  # an interrupt waits for what was asked, not for the rest
    if failed and len(failed) == len(clients):
        raise CloudError("\n".join(failed.values()))
    return Found(offers=ranked(offers), failed=failed)


def ask(client: Any, question: Question) -> list[Offer]:
    """Ask one region one question."""
    asked = {
        "UltraserverType": question.rack_type,
        "UltraserverCount": question.racks,
        "CapacityDurationHours": question.hours,
        "StartDateRange": question.starts_after,
        "EndDateRange": question.ends_before,
        "AllAvailabilityZones": True,  # Local Zones too, opted in or not
    }
    with translated(f"aws {question.region}"):
        pages = client.get_paginator("describe_capacity_block_offerings").paginate(**asked)
        raw = [offer for page in pages for offer in page.get("CapacityBlockOfferings", [])]
    return [_offer(offer, question.region) for offer in raw]


def _offer(raw: Mapping[str, Any], region: str) -> Offer:
    minutes = raw.get("CapacityBlockDurationMinutes")
    hours = Decimal(minutes) / 60 if minutes else Decimal(raw.get("CapacityBlockDurationHours", 0))
    try:
        return Offer(
            id=raw.get("CapacityBlockOfferingId", ""),
            region=region,
            zone=raw.get("AvailabilityZone", ""),
            zone_type=raw.get("ZoneType", ""),
            rack_type=raw.get("UltraserverType", ""),
            racks=raw.get("UltraserverCount", 0),
            instance_type=raw.get("InstanceType", ""),
            instances=raw.get("InstanceCount", 0),
            starts_at=raw["StartDate"],
            ends_at=raw["EndDate"],
            hours=hours,
            fee=raw.get("UpfrontFee", ""),
            currency=raw.get("CurrencyCode", ""),
        )
    except (KeyError, ValidationError) as error:
        name = str(raw.get("CapacityBlockOfferingId", "?"))[:64]
        raise CloudError(
            f"aws {region}: its offer {name} cannot be understood. Update k3fleet; buy nothing."
        ) from error


def fresh(access: AwsAccess, quoted: Offer) -> Offer:
    """Ask for an offer again; raise PurchaseError when it is gone or costs something else.

    An offer that is listed under another id, and is the same in everything else, is taken.
    """
    question = Question(
        region=quoted.region,
        rack_type=quoted.rack_type,
        racks=quoted.racks,
        hours=int(quoted.hours),
        starts_after=quoted.starts_at - timedelta(hours=1),
        ends_before=quoted.ends_at + timedelta(hours=1),
    )
    offers = ask(access.asking("ec2", quoted.region), question)
    named = next((offer for offer in offers if offer.id == quoted.id), None)
    same = next((offer for offer in offers if offer.same_goods(quoted)), None)
    found = named or same
    if found is None:
        raise PurchaseError(
            f"{quoted.id}: is no longer offered. Nothing was bought. Run `k3fleet capacity find`."
        )
    if (found.fee, found.currency) != (quoted.fee, quoted.currency):
        raise PurchaseError(
            f"{quoted.id}: cost {quoted.fee} {quoted.currency} and now {found.fee} "
            f"{found.currency}. Nothing was bought. Run `k3fleet capacity find`."
        )
    return found


def extension_offers(
    access: AwsAccess, region: str, reservation: str, hours: int
) -> list[Extension]:
    """Ask what more time for a reservation costs, cheapest first."""
    client = access.asking("ec2", region)
    with translated(f"aws {region}"):
        pages = client.get_paginator("describe_capacity_block_extension_offerings").paginate(
            CapacityBlockExtensionDurationHours=hours, CapacityReservationId=reservation
        )
        raw = [offer for page in pages for offer in page.get("CapacityBlockExtensionOfferings", [])]
    found = [_extension(offer, region, reservation) for offer in raw]
    return sorted(found, key=lambda offer: (offer.currency, offer.fee, offer.id))


def _extension(raw: Mapping[str, Any], region: str, reservation: str) -> Extension:
    try:
        return Extension(
            id=raw.get("CapacityBlockExtensionOfferingId", ""),
            region=region,
            reservation=reservation,
            starts_at=raw["CapacityBlockExtensionStartDate"],
            ends_at=raw["CapacityBlockExtensionEndDate"],
            fee=raw.get("UpfrontFee", ""),
            currency=raw.get("CurrencyCode", ""),
        )
    except (KeyError, ValidationError) as error:
        raise CloudError(
            f"aws {region}: its extension for {reservation} cannot be understood. "
            "Update k3fleet; buy nothing."
        ) from error


def extension_history(access: AwsAccess, extension: Extension) -> list[Mapping[str, Any]]:
    """List what a reservation was extended by with this offering, as EC2 writes it."""
    return [
        item
        for item in all_extensions(access, extension.region, extension.reservation)
        if item.get("CapacityBlockExtensionOfferingId") == extension.id
    ]


def all_extensions(access: AwsAccess, region: str, reservation: str) -> list[Mapping[str, Any]]:
    """List what a reservation was extended by, as EC2 writes it."""
    client = access.asking("ec2", region)
    with translated(f"aws {region}"):
        pages = client.get_paginator("describe_capacity_block_extension_history").paginate(
            CapacityReservationIds=[reservation]
        )
        return [item for page in pages for item in page.get("CapacityBlockExtensions", ())]
