"""Say what is wrong with bought capacity: alarms, each about one block or one rack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleet.capacity.blocks import FAILED_STATES, OVER_STATES, PENDING_STATES, Block, Claim
from fleet.capacity.deadlines import Timetable
from fleet.capacity.order import TAG_FLEET, belongs_to

# The fleet file is written by hand, to the minute.
SAME_END = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One thing that somebody has to look at."""

    about: str  # a block, or a rack of the fleet file
    kind: str  # a word to script on
    text: str  # what, and what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """For whom, when, and how early to warn."""

    fleet: str
    now: datetime
    notice: timedelta


def served_racks(block: Block, claims: Iterable[Claim]) -> tuple[str, ...]:
    """Name the racks of the fleet file that a block's reservations serve."""
    return tuple(claim.rack for claim in claims if claim.reservation in block.reservations)


def is_shown(block: Block, claims: Iterable[Claim], fleet: str) -> bool:
    """Keep what is ours by tag or by the fleet file; an account may serve other teams."""
    return belongs_to(fleet, block.tags) or bool(served_racks(block, claims))


def alarms(blocks: Sequence[Block], claims: Sequence[Claim], watch: Watch) -> list[Alarm]:
    """Find all alarms, of blocks first."""
    found = [alarm for block in blocks for alarm in _block_alarms(block, claims, watch)]
    known = {reservation: block for block in blocks for reservation in block.reservations}
    for claim in claims:
        if claim.reservation is not None:
            found += _claim_alarms(claim, known.get(claim.reservation))
    return found


def overdue(tables: Mapping[str, Timetable], now: datetime) -> list[Alarm]:
    """Find the racks whose drain should have begun."""
    return [
        Alarm(
            about=rack,
            kind="drain-now",
            text=f"has to be empty by {utc_text(times.empty_by)}: its drain was to begin at "
            f"{utc_text(times.drain_at)}. Drain it (k3fleet racks drain).",
        )
        for rack, times in tables.items()
        if now >= times.drain_at
    ]


def _block_alarms(block: Block, claims: Sequence[Claim], watch: Watch) -> Iterator[Alarm]:
    racks = served_racks(block, claims)
    owner = block.tags.get(TAG_FLEET)
    if owner is not None and owner != watch.fleet:
        yield _of(
            block,
            "foreign",
            f"belongs to fleet {owner}, but serves {', '.join(racks)}. Ask its owner.",
        )
    if block.state in FAILED_STATES:
        yield _of(
            block,
            block.state,
            f"is {block.state}: no rack comes of it. Look at the account's payment, "
            "and buy another.",
        )
        return
    if block.state in OVER_STATES:
        if racks:
            yield _of(
                block,
                block.state,
                f"is {block.state}, but the fleet file still gives it to {', '.join(racks)}. "
                "Take it out there.",
            )
        return
    if not racks and block.state not in PENDING_STATES:
        yield _of(
            block,
            "not-in-fleet-file",
            f"is paid for and serves no rack. Write `capacity: {{reservation: "
            f"{'|'.join(block.reservations) or '?'}}}` into a rack of the fleet file.",
        )
    yield from _health_alarms(block)
    yield from _end_alarms(block, watch)


def _health_alarms(block: Block) -> Iterator[Alarm]:
    if block.health is None:
        return
    if block.health.interconnect == "impaired":
        yield _of(
            block,
            "impaired",
            "has an impaired interconnect: replicas over two of its nodes may stall. "
            "Move sessions off its racks and open a case with the cloud.",
        )
    if block.health.unavailable:
        yield _of(
            block,
            "machines-unavailable",
            f"has {block.health.unavailable} of {block.health.total} machines unavailable. "
            "Lower healthy_nodes of its rack, or wait for the repair.",
        )


def _end_alarms(block: Block, watch: Watch) -> Iterator[Alarm]:
    if block.ends_at is None:
        return
    left = block.ends_at - watch.now
    if left <= watch.notice:
        hours = max(left.total_seconds(), 0) / 3600
        yield _of(
            block,
            "ends-soon",
            f"ends in {hours:.1f} hours. Extend it (k3fleet capacity extend), or drain its racks.",
        )


def _claim_alarms(claim: Claim, block: Block | None) -> Iterator[Alarm]:
    about = f"{claim.fleet_region}/{claim.rack}"
    if block is None:
        yield Alarm(
            about=about,
            kind="not-found",
            text=f"names {claim.reservation}, which is not among the account's blocks of "
            f"{claim.region}. Correct the id, the region or the account.",
        )
        return
    if block.region != claim.region:
        yield Alarm(
            about=about,
            kind="wrong-region",
            text=f"names {claim.reservation}, which is in {block.region} and not in "
            f"{claim.region}. Move the rack to a region there.",
        )
    if block.ends_at is None:
        return
    wanted = f"capacity_ends_at: {utc_text(block.ends_at)}"
    if claim.ends_at is None:
        yield Alarm(
            about=about,
            kind="end-not-written",
            text=f"names no end, so that no alert counts down to it. Write {wanted}.",
        )
    elif abs(claim.ends_at - block.ends_at) > SAME_END:
        yield Alarm(
            about=about,
            kind="end-differs",
            text=f"ends at {utc_text(claim.ends_at)} in the fleet file, but {block.id} at "
            f"another time. Write {wanted}.",
        )


def _of(block: Block, kind: str, text: str) -> Alarm:
    return Alarm(about=block.id, kind=kind, text=text)


def utc_text(time: datetime) -> str:
    """Write a time as the fleet file reads it."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"  # boto3 gives the machine's own zone
