"""Stores that say less than they should, or whose clocks differ: told, and never guessed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from weights_site import BUCKETS, SOURCE, Site, model_files

from fleet.errors import BusyError, StoreError
from infra.rollout.lease import Time
from infra.weights.lock import LENGTH_S, RENEW_S, BucketLock
from infra.weights.store import Store
from infra.weights.store_errors import CredentialsError
from infra.weights.store_errors import asked as asked_of
from infra.weights.uploads import Uploads

MakeSite = Callable[..., Site]
Change = Callable[[dict[str, Any]], None]
EAST = BUCKETS["us-east"]
FILES = model_files(2)
HOLDER = {"holder": "ann@elsewhere/7", "process": "another-boot ns 7 1.0"}


class OddClient:
    """Boto3's client, whose answers to some operations are changed."""

    def __init__(self, client: Any, changes: Mapping[str, Change]) -> None:
        self._client, self._changes = client, changes

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if name not in self._changes:
            return real

        def call(**asked: Any) -> Any:
            answer = real(**asked)
            self._changes[name](answer)
            return answer

        return call

    def get_paginator(self, name: str) -> Any:
        pages, change = self._client.get_paginator(name), self._changes.get(name)

        class Pages:
            def paginate(self, **asked: Any) -> Any:
                for page in pages.paginate(**asked):
                    if change:
                        change(page)
                    yield page

        return Pages()


def odd(store: Store, changes: Mapping[str, Change]) -> Store:
    return Store(store.spec, OddClient(store.client, changes), time.monotonic)


def without(*path: str) -> Change:
    """Take something out of an answer, or out of each item of a list in it."""

    def change(answer: dict[str, Any]) -> None:
        items = answer.get(path[0], ()) if len(path) > 1 else [answer]
        for item in items:
            item.pop(path[-1], None)

    return change


def look(store: Store, site: Site) -> object:
    return store.look(site.key("config.json"))


def small(store: Store, site: Site) -> object:
    return store.small(site.key("config.json"), 100)


def put(store: Store, site: Site) -> object:
    return store.put(site.key("k3fleet-x"), b"x")


def listing(store: Store, site: Site) -> object:
    return list(store.objects(site.weights.revision))


def begin(store: Store, site: Site) -> object:
    return Uploads(store).begin(site.key("new"))


def uploads(store: Store, site: Site) -> object:
    return Uploads(store).open(site.weights.revision)


@pytest.mark.parametrize(
    ("ask", "operation", "path"),
    [
        (look, "head_object", ("ETag",)),
        (look, "head_object", ("ContentLength",)),
        (small, "get_object", ("ETag",)),
        (small, "get_object", ("ContentLength",)),
        (put, "put_object", ("ETag",)),
        (listing, "list_objects_v2", ("Contents", "ETag")),
        (listing, "list_objects_v2", ("Contents", "Size")),
        (listing, "list_objects_v2", ("Contents", "Key")),
        (listing, "list_objects_v2", ("Contents", "LastModified")),
        (begin, "create_multipart_upload", ("UploadId",)),
        (uploads, "list_multipart_uploads", ("Uploads", "Key")),
        (uploads, "list_multipart_uploads", ("Uploads", "UploadId")),
        (uploads, "list_multipart_uploads", ("Uploads", "Initiated")),
        (uploads, "list_parts", ("Parts", "PartNumber")),
        (uploads, "list_parts", ("Parts", "Size")),
    ],
)
def test_what_an_answer_lacks_is_named(
    make_site: MakeSite,
    ask: Callable[[Store, Site], object],
    operation: str,
    path: tuple[str, ...],
) -> None:
    """S3-compatible is what a vendor says of itself; a KeyError says nothing to an operator."""
    site = make_site()
    site.publish({"config.json": b"{}"})
    where = {"Bucket": SOURCE, "Key": site.key("open")}
    upload = site.client.create_multipart_upload(**where)["UploadId"]
    site.client.upload_part(**where, UploadId=upload, PartNumber=1, Body=b"x")
    store = site.places().source()
    ask(store, site)  # with the whole answer it works
    with pytest.raises(StoreError, match=rf"s3://{SOURCE}.*answer has no {path[-1]}\. .*vendor"):
        ask(odd(store, {operation: without(*path)}), site)


@dataclass
class Watched:
    """A time that goes on only while somebody waits, and what happens meanwhile."""

    meanwhile: Callable[[float], None] = lambda _now_s: None
    now_s: float = 0.0

    def time(self) -> Time:
        return Time(clock=lambda: self.now_s, now=lambda: datetime.now(UTC), pause=self.pause)

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.meanwhile(self.now_s)


def dated(shift_s: float | None) -> Change:
    """Have the clock of the answers and that of the objects differ; None: answers have none."""

    def change(answer: dict[str, Any]) -> None:
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        headers.pop("date", None)
        if shift_s is not None:
            date = answer["LastModified"] + timedelta(seconds=shift_s)
            headers["date"] = format_datetime(date)

    return change


def locked(site: Site, shift_s: float | None, watched: Watched) -> BucketLock:
    """Give the lock of a region whose lock somebody else has left."""
    site.client.put_object(Bucket=EAST, Key=site.lock_key, Body=json.dumps(HOLDER).encode())
    places = site.places()
    store = odd(places.region("us-east"), {"get_object": dated(shift_s)})
    return BucketLock(store, places.me, watched.time(), site.said.append)


@pytest.mark.parametrize("shift_s", [-86_400.0, None], ids=["of tomorrow", "without a date"])
def test_a_dead_lock_is_freed_whatever_its_date(make_site: MakeSite, shift_s: float | None) -> None:
    """It would else be young for ever; that nobody renews it shows that its holder is dead."""
    site, watched = make_site(), Watched()
    lock = locked(site, shift_s, watched)
    with lock.held():
        assert watched.now_s == LENGTH_S
        assert "ann@elsewhere/7 renews it" in site.said[0]
    assert site.lock_key not in site.keys(EAST)


@pytest.mark.parametrize("shift_s", [-86_400.0, None], ids=["of tomorrow", "without a date"])
def test_a_living_lock_is_kept_whatever_its_date(
    make_site: MakeSite, shift_s: float | None
) -> None:
    """Its holder writes it anew every 20 seconds."""
    site = make_site()

    def renew(now_s: float) -> None:
        if now_s >= RENEW_S:
            content = json.dumps({**HOLDER, "renewed": now_s}).encode()
            site.client.put_object(Bucket=EAST, Key=site.lock_key, Body=content)

    watched = Watched(renew)
    lock = locked(site, shift_s, watched)
    with pytest.raises(BusyError, match="ann@elsewhere/7 works on it"), lock.held():
        pass
    assert watched.now_s == RENEW_S


def test_a_lock_that_goes_while_it_is_watched_is_free(make_site: MakeSite) -> None:
    """Its holder ended well; what is not there has no tag to be taken over by."""
    site = make_site()
    watched = Watched(lambda _: site.client.delete_object(Bucket=EAST, Key=site.lock_key))
    lock = locked(site, None, watched)
    with lock.held():
        assert site.lock_key in site.keys(EAST)


def test_a_lock_of_this_second_is_young(make_site: MakeSite) -> None:
    """Dates have whole seconds, and a store's machines differ by some: no reason to watch."""
    site, watched = make_site(), Watched()
    with pytest.raises(BusyError, match="heard of 0 s ago"), locked(site, -1.0, watched).held():
        pass
    assert watched.now_s == 0


def test_the_age_of_an_upload_is_told_by_the_stores_clock(make_site: MakeSite) -> None:
    """With a clock of ours that is a week ahead, gc would end what others are sending."""
    site = make_site()
    store = site.places().region("us-east")

    def tomorrow(answer: dict[str, Any]) -> None:
        answer["ResponseMetadata"]["HTTPHeaders"]["date"] = "Tue, 01 Jan 2030 00:00:00 GMT"

    assert odd(store, {"head_bucket": tomorrow}).now_s() == 1_893_456_000
    with pytest.raises(StoreError, match="answers have no date"):
        odd(store, {"head_bucket": dated(None)}).now_s()


def test_a_wrong_clock_of_this_machine_is_named() -> None:
    """Signatures hold for some minutes; renewing credentials would not help."""
    said = {"Code": "RequestTimeTooSkewed", "Message": "The difference is too large."}
    why = r"clock of this machine is wrong.*Set it \(NTP\)"
    with pytest.raises(CredentialsError, match=why), asked_of("s3://b"):
        raise ClientError({"Error": said}, "PutObject")
