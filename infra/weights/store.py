"""Talk to one folder of a bucket: list, look, read, and write small objects.

Requests are repeated by botocore (500, 503, time-outs, with growing pauses). A body that breaks
off, or trickles, is nobody's but ours: it is asked for again from where it ended, of the same
object.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import boto3
from botocore.config import Config

from fleet.errors import ConfigError, StoreError
from fleet.weights.findings import Seen
from fleet.weights.notes import Held
from fleet.weights_spec import StoreSpec
from infra.weights.bodies import FAILURES, Patience, body_chunks
from infra.weights.digests import md5_header
from infra.weights.store_errors import AbsentError, ChangedError, UntoldError, asked, given

_TRIES = 6  # tries of a request, with pauses of up to 20 s between them (botocore)
_CONNECT_S, _READ_S = 10, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object of a listing."""

    name: str  # below the folder that was listed
    held: Held
    modified_s: float  # Unix time, by the store's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A small object, whole."""

    content: bytes
    etag: str
    age_s: float | None  # since it was written, by the store's clock; None: it does not say


def connect(spec: StoreSpec, connections: int) -> Any:
    """Make a client; boto3 looks for credentials by itself."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        max_pool_connections=connections,
        s3={"addressing_style": spec.addressing},
        # Ours are given with each part, and compared with what we have read.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="k3fleet",
    )
    with asked(f"s3://{spec.bucket}"):
        session = boto3.session.Session(profile_name=spec.profile)
        return session.client(
            "s3", endpoint_url=spec.endpoint_url, region_name=spec.region, config=config
        )


class Store:
    """One folder of a bucket, as the fleet file names it."""

    def __init__(self, spec: StoreSpec, client: Any, clock: Callable[[], float]) -> None:
        self.spec, self.client, self._clock = spec, client, clock
        self.place = f"s3://{spec.bucket}" + (f"/{spec.prefix}" if spec.prefix else "")

    def key(self, *parts: str) -> str:
        """Give the key of something below the folder."""
        return "/".join(part for part in (self.spec.prefix, *parts) if part)

    def below(self, *parts: str) -> str:
        """Give the beginning of all keys below a folder."""
        key = self.key(*parts)
        return f"{key}/" if key else ""

    def where(self, key: str) -> str:
        """Name a key in a message."""
        shown = key if key.isascii() and key.isprintable() else ascii(key)
        return f"s3://{self.spec.bucket}/{shown}"

    def check_region(self) -> None:
        """Raise ConfigError when the bucket is not where the fleet file says."""
        try:
            with asked(self.place):
                answer = self.client.head_bucket(Bucket=self.spec.bucket)
        except UntoldError:
            with asked(self.place):  # the same refusal, with its reason
                self.client.list_objects_v2(Bucket=self.spec.bucket, MaxKeys=1)
            raise
        found = answer.get("BucketRegion")
        if found and self.spec.endpoint_url is None and found != self.spec.region:
            raise ConfigError(
                f"{self.place}: the bucket is in {found}, not in {self.spec.region}. "
                "Correct `region` under `weights`."
            )

    def now_s(self) -> float:
        """Give the Unix time of the clock by which the store dates what it holds."""
        with asked(self.place):
            answer = self.client.head_bucket(Bucket=self.spec.bucket)
        date = _date(answer)
        if date is None:
            raise StoreError(
                f"{self.place}: the store's answers have no date, so nobody can say how old "
                "something is. Look for a proxy before it, or ask its vendor."
            )
        return date.timestamp()

    def is_versioned(self) -> bool:
        """Say whether the bucket keeps what is deleted or overwritten."""
        with asked(self.place):
            answer = self.client.get_bucket_versioning(Bucket=self.spec.bucket)
        return bool(answer.get("Status") == "Enabled")

    def objects(self, folder: str) -> Iterator[Object]:
        """List all objects below a folder, in the order of their names."""
        prefix = self.below(folder)
        pages = self.client.get_paginator("list_objects_v2")
        with asked(self.where(prefix)):
            for page in pages.paginate(Bucket=self.spec.bucket, Prefix=prefix):
                for item in page.get("Contents", ()):
                    yield self._listed(item, prefix)

    def folders(self) -> list[str]:
        """List the folders right below ours."""
        prefix = self.below()
        pages = self.client.get_paginator("list_objects_v2")
        with asked(self.place):
            answers = pages.paginate(Bucket=self.spec.bucket, Prefix=prefix, Delimiter="/")
            found = [
                str(given(item, "Prefix", self.place))
                for page in answers
                for item in page.get("CommonPrefixes", ())
            ]
        return [name.removeprefix(prefix).rstrip("/") for name in found]

    def look(self, key: str) -> Seen | None:
        """Look at an object without reading it; None when it is not there."""
        try:
            with asked(self.where(key)):
                answer = self.client.head_object(
                    Bucket=self.spec.bucket, Key=key, ChecksumMode="ENABLED"
                )
        except AbsentError:
            return None
        except UntoldError:
            self.small(key, 0)  # the same refusal, with its reason: expired credentials, mostly
            raise
        size = given(answer, "ContentLength", self.where(key))
        held = Held(bytes=size, etag=given(answer, "ETag", self.where(key)))
        return Seen(held=held, crc64nvme=_whole_crc(answer))

    def read(self, key: str, etag: str, start: int, end: int) -> Iterator[bytes]:
        """Read bytes of the object that has this tag; ChangedError when it has another by now."""
        patience = Patience(self.where(key))
        while start < end:
            try:
                for chunk in self._body(key, etag, start, end):
                    start += len(chunk)
                    patience.came(len(chunk))
                    yield chunk
            except FAILURES as error:
                patience.failed(error, start)

    def small(self, key: str, max_bytes: int) -> Small | None:
        """Read a small object; None when it is not there."""
        patience = Patience(self.where(key))
        while True:
            try:
                return self._small(key, max_bytes)
            except AbsentError:
                return None
            except FAILURES as error:
                patience.failed(error, 0)

    def put(self, key: str, content: bytes, *, only: str | None = None) -> str:
        """Write a small object and give its tag.

        `only`: the tag of the object that it replaces, or "" when there must be none;
        else ChangedError.
        """
        condition: dict[str, str] = {}
        if only is not None:
            condition = {"IfMatch": only} if only else {"IfNoneMatch": "*"}
        with asked(self.where(key)):
            answer = self.client.put_object(
                Bucket=self.spec.bucket,
                Key=key,
                Body=content,
                ContentMD5=md5_header(content),
                **condition,
            )
        return str(given(answer, "ETag", self.where(key)))

    def delete(self, key: str, *, only: str | None = None) -> None:
        """Delete one object; `only`: when it still has this tag."""
        condition = {} if only is None else {"IfMatch": only}
        with asked(self.where(key)):
            self.client.delete_object(Bucket=self.spec.bucket, Key=key, **condition)

    def _body(self, key: str, etag: str, start: int, end: int) -> Iterator[bytes]:
        with asked(self.where(key)):
            answer = self.client.get_object(
                Bucket=self.spec.bucket, Key=key, IfMatch=etag, Range=f"bytes={start}-{end - 1}"
            )
        if given(answer, "ETag", self.where(key)) != etag:  # not every store obeys IfMatch
            raise ChangedError(
                f"{self.where(key)}: was changed meanwhile. Find out by whom, and run it again."
            )
        told = str(answer.get("ContentRange") or "bytes 0-")
        if not told.startswith(f"bytes {start}-"):  # else its beginning would be taken for them
            raise StoreError(
                f"{self.where(key)}: other bytes came than were asked for: {told[:80]!a}, not "
                f"from {start}. This store cannot be read in parts; look for a proxy before it."
            )
        with answer["Body"] as body:
            yield from body_chunks(body, end - start, self._clock)

    def _small(self, key: str, max_bytes: int) -> Small:
        where = self.where(key)
        with asked(where):
            answer = self.client.get_object(Bucket=self.spec.bucket, Key=key)
        size = min(int(given(answer, "ContentLength", where)), max_bytes + 1)
        with answer["Body"] as body:
            content = b"".join(body_chunks(body, size, self._clock))
        etag = str(given(answer, "ETag", where))
        return Small(content=content, etag=etag, age_s=_age_s(answer))

    def _listed(self, item: Mapping[str, Any], prefix: str) -> Object:
        where = self.where(prefix)
        return Object(
            name=str(given(item, "Key", where)).removeprefix(prefix),
            held=Held(bytes=given(item, "Size", where), etag=given(item, "ETag", where)),
            modified_s=given(item, "LastModified", where).timestamp(),
        )


def _whole_crc(answer: Mapping[str, Any]) -> str | None:
    """Give the CRC of the whole object in hex digits, where the store has one."""
    crc = answer.get("ChecksumCRC64NVME")
    if crc is None or answer.get("ChecksumType") == "COMPOSITE" or "-" in crc:
        return None
    try:
        value = base64.b64decode(crc, validate=True)
    except ValueError:
        return None
    return value.hex() if len(value) == 8 else None


def _age_s(answer: Mapping[str, Any]) -> float | None:
    date, written = _date(answer), answer.get("LastModified")
    return (date - written).total_seconds() if date and written else None


def _date(answer: Mapping[str, Any]) -> datetime | None:
    try:
        date = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"].get("date", ""))
    except ValueError:
        return None
    return date.replace(tzinfo=date.tzinfo or UTC)
