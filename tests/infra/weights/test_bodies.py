"""Bodies that trickle, break off or are late: noticed, gone on with, and given up in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from urllib3.exceptions import ReadTimeoutError

from fleet.errors import StoreError
from fleet.weights.parts import MIB
from fleet.weights_spec import StoreSpec
from infra.weights.bodies import FLOOR_BYTES, FLOOR_S
from infra.weights.store import Store

Pieces = Iterator[bytes | Exception]
KEY, TAG, SIZE = "models/r/shard", '"tag"', 2 * MIB


class FakeStore:
    """Gives bodies as a test makes them, by a clock that only they move."""

    def __init__(self, bodies: Iterable[Callable[[FakeStore], Pieces]]) -> None:
        self.now_s = 0.0
        self.asked: list[str] = []
        self._bodies = iter(bodies)

    def get_object(self, *, Range: str = "bytes=0-", **_: Any) -> dict[str, Any]:  # noqa: N803 - boto3's
        self.asked.append(Range)
        return {
            "ETag": TAG,
            "ContentLength": SIZE,
            "ContentRange": Range.replace("=", " "),
            "Body": FakeBody(next(self._bodies)(self)),
            "ResponseMetadata": {"HTTPHeaders": {}},
        }

    def read(self) -> Iterator[bytes]:
        return self.store().read(KEY, TAG, 0, SIZE)

    def store(self) -> Store:
        return Store(StoreSpec(bucket="k3-w"), self, lambda: self.now_s)


class FakeBody:
    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    def __enter__(self) -> FakeBody:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read1(self, count: int) -> bytes:
        piece = next(self._pieces, b"")
        if isinstance(piece, Exception):
            raise piece
        assert len(piece) <= count
        return piece


def every(seconds: float, piece: bytes) -> Callable[[FakeStore], Pieces]:
    """Make a body that brings a piece now and then, for as long as it is asked."""

    def body(store: FakeStore) -> Pieces:
        while True:
            store.now_s += seconds
            yield piece

    return body


def test_a_store_that_trickles_is_asked_again_and_then_given_up() -> None:
    """Each byte resets the connection's own time-out; the region would wait for ever."""
    store = FakeStore([every(1.0, b"x")] * 9)
    with pytest.raises(StoreError, match=r"less than 1\.00 MiB in 30 s at byte 90, 3 times"):
        list(store.read())
    assert [text.split("-")[0] for text in store.asked] == ["bytes=0", "bytes=30", "bytes=60"]


def test_what_trickled_once_is_gone_on_with() -> None:
    """A new connection may reach another machine of the store."""
    fast = every(0.01, b"y" * (MIB // 4))
    store = FakeStore([every(20.0, b"x"), fast])
    read = b"".join(store.store().read(KEY, TAG, 0, 2 + MIB))
    assert read == b"xx" + b"y" * MIB
    assert store.asked[1] == f"bytes=2-{MIB + 1}"


def test_a_slow_store_is_no_trickling_one() -> None:
    """It comes above the floor, so it ends."""
    store = FakeStore([every(0.9 * FLOOR_S * 1024 / FLOOR_BYTES, b"x" * 1024)])
    assert len(b"".join(store.read())) == SIZE
    assert len(store.asked) == 1


def test_our_own_limit_is_not_the_stores_fault() -> None:
    """With --rate 30kB chunks are taken slowly, and wait in our machine."""
    store = FakeStore([every(0.0, b"x" * 1024)])
    size = 0
    for chunk in store.store().read(KEY, TAG, 0, SIZE):
        size += len(chunk)
        store.now_s += 1000
    assert (size, len(store.asked)) == (SIZE, 1)


def late(_: FakeStore) -> Pieces:
    yield b"x" * 10
    yield ReadTimeoutError(None, "", "read timed out")  # type: ignore[arg-type] - botocore gives neither


def test_a_body_that_times_out_is_gone_on_with() -> None:
    """urllib3 says it by errors of its own, which botocore does not translate here."""
    store = FakeStore([late, every(0.0, b"y" * 1024)])
    assert b"".join(store.store().read(KEY, TAG, 0, 1034)) == b"x" * 10 + b"y" * 1024
    assert store.asked[1].startswith("bytes=10-")
    always = FakeStore([late] * 5)
    with pytest.raises(StoreError, match="breaks off at byte 50, 5 times"):
        list(always.read())


def test_a_small_object_is_whole_or_asked_again() -> None:
    """Half of a manifest would be told as a damaged one, and half of a lock as nobody's."""

    def cut(_: FakeStore) -> Pieces:
        yield b"x" * 1000

    store = FakeStore([cut, late, every(0.0, b"y" * 1024)])
    small = store.store().small(KEY, SIZE)
    assert small is not None
    assert small.content == b"y" * SIZE
    with pytest.raises(StoreError, match="trickles"):
        FakeStore([every(1.0, b"x")] * 9).store().small(KEY, SIZE)
