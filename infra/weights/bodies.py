"""Read the body of an answer, and notice when it breaks off or trickles.

A body that brings a byte a minute never times out: each byte resets the connection's limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from urllib3.exceptions import HTTPError

from fleet.errors import StoreError
from fleet.units import format_bytes
from fleet.weights.pace import Floor
from fleet.weights.parts import MIB

CHUNK_BYTES = 4 * MIB
_PIECE_BYTES = MIB // 4  # of one look at the connection
# A body that brings less in that time is given up: 35 KB/s, at which a shard would take five days.
FLOOR_BYTES, FLOOR_S = MIB, 30.0
_BREAKS, _TRICKLES = 5, 3  # so often in a row it may fail without bringing anything


class BrokenError(Exception):
    """A body ended before its time."""


class TrickleError(Exception):
    """A body comes too slowly to wait for it."""


FAILURES = (BrokenError, TrickleError)


class Patience:
    """How often the same object may fail before it is given up."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._breaks = self._trickles = 0

    def came(self, count: int) -> None:
        """Take what came for a sign that it goes on."""
        if count >= _PIECE_BYTES:
            self._breaks = self._trickles = 0

    def failed(self, error: Exception, at: int) -> None:
        """Raise StoreError when it was too often; `at`: the byte that it failed at."""
        is_slow = isinstance(error, TrickleError)
        self._trickles += is_slow
        self._breaks += not is_slow
        if self._trickles == _TRICKLES:
            raise StoreError(
                f"{self._where}: trickles: less than {format_bytes(FLOOR_BYTES, binary=True)} in "
                f"{FLOOR_S:.0f} s at byte {at}, {_TRICKLES} times. Look at the store and the way "
                "there, then run it again: what is done stays done."
            ) from error
        if self._breaks == _BREAKS:
            raise StoreError(
                f"{self._where}: breaks off at byte {at}, {_BREAKS} times. "
                "Check the way to the store, then run it again: what is done stays done."
            ) from error


def body_chunks(body: Any, count: int, clock: Callable[[], float]) -> Iterator[bytes]:
    """Give so many bytes of a body in chunks; what has come is given before an error is raised."""
    floor = Floor(FLOOR_BYTES, FLOOR_S)
    while count:
        chunk, error = _chunk(body, min(CHUNK_BYTES, count), floor, clock)
        count -= len(chunk)
        if chunk:
            yield chunk
        if error is not None:
            raise error


def _chunk(
    body: Any, count: int, floor: Floor, clock: Callable[[], float]
) -> tuple[bytes, Exception | None]:
    pieces: list[bytes] = []
    error: Exception | None = None
    while count and error is None:
        began_s = clock()
        try:
            piece = body.read1(min(_PIECE_BYTES, count))  # read() would wait until all are there
        except HTTPError as broken:
            return b"".join(pieces), BrokenError(type(broken).__name__)
        count -= len(piece)
        pieces.append(piece)
        if not piece:
            error = BrokenError()
        elif not floor.holds(len(piece), clock() - began_s):
            error = TrickleError()
    return b"".join(pieces), error
