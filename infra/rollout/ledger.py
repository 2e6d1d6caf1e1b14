"""Keep the records of a fleet's rollouts in a region's cluster, for every working copy.

One ConfigMap per rollout holds its whole record, compressed: a record of 1,800 replicas that go
one by one has 3.9 MB, and 0.5 MB so (measured; an object may have 1 MiB). What operators ask for
is in one ConfigMap beside them, a key for each request, so that asking never meets the driver's
writing.
"""

from __future__ import annotations

import base64
import re
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fleet.errors import ApplyError, BusyError
from fleet.rollout.record import Asked, Entry
from infra.rollout.objects import ChangedError, Object, Objects

LABEL = "k3fleet.io/rollout"
ENTRIES = "k3fleet.io/entries"  # annotation: how many a record has
RECORD_KEY = "record.jsonl.gz"
REQUESTS = "k3fleet-rollout-requests"
KEPT = 20  # records in a cluster; older ones stay in the files of those who drove them
MAX_BYTES = 10**8  # of a record that is read; one that claims more is none of ours

_COUNT = re.compile(r"[0-9]{1,9}")
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record as a cluster has it."""

    entries: tuple[Entry, ...]
    item: Object | None = None  # to write over it; None: there is none yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A record as it is written."""

    entries: tuple[Entry, ...]
    data: str

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Packed:
        """Compress a record that does not grow."""
        return Packer().pack(entries)


class Packer:
    """Compress a record that grows: once for all regions, and only what is new."""

    def __init__(self) -> None:
        self._known: tuple[Entry, ...] = ()
        self._stream = _gzip()
        self._done = bytearray()  # what the stream has given so far

    def pack(self, entries: Sequence[Entry]) -> Packed:
        """Compress a record."""
        count = len(self._known)
        if count > len(entries) or (count and entries[count - 1] != self._known[-1]):
            count, self._stream, self._done = 0, _gzip(), bytearray()
        for entry in entries[count:]:
            self._done += self._stream.compress(entry.model_dump_json().encode() + b"\n")
        self._known = tuple(entries)
        end = self._stream.copy().flush()
        data = base64.b64encode(self._done + end).decode()
        return Packed(entries=self._known, data=data)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The records in one region."""

    objects: Objects

    @property
    def region(self) -> str:
        """Name of the region."""
        return self.objects.region

    def numbers(self) -> list[int]:
        """Give the numbers of all rollouts that are known here."""
        return sorted(self._records())

    def newer(self, known: Mapping[int, int]) -> Mapping[int, Stored]:
        """Read the records that do not have as many entries as is known by their number.

        The others are not even unpacked: twenty of a large fleet take half a minute.
        """
        return {
            number: Stored(entries=_unpacked(self.region, item), item=item)
            for number, item in self._records().items()
            if known.get(number) != _entries(item)
        }

    def read(self, number: int) -> Stored:
        """Read one record; it is empty where there is none."""
        item = self.objects.get("ConfigMap", _name(number))
        return Stored(entries=_unpacked(self.region, item) if item else (), item=item)

    def write(self, number: int, before: Stored, record: Packed) -> Stored:
        """Write a record over the one that was read; BusyError where that is another one by now."""
        old = before.item or _empty(number)
        count = {ENTRIES: str(len(record.entries))}
        item = {
            **old,
            "metadata": {**old["metadata"], "annotations": count},
            "binaryData": {RECORD_KEY: record.data},
        }
        try:
            return Stored(entries=record.entries, item=self.objects.write("ConfigMap", item))
        except ChangedError as error:
            found = self.read(number)
            if found.entries == record.entries:  # the answer to our own write was lost
                return found
            if found.entries == before.entries:
                return self.write(number, found, record)
            raise BusyError(
                f"{self.region}: somebody else writes the record of rollout {number}. "
                "This driver has stopped. See `k3fleet rollout status`."
            ) from error

    def forget_old(self) -> None:
        """Remove the oldest records."""
        for number in self.numbers()[:-KEPT]:
            self.objects.delete("ConfigMap", _name(number))

    def ask(self, number: int, asked: Asked) -> None:
        """Leave a request for whoever drives a rollout."""
        key = f"{number:04}-{uuid.uuid4().hex}"
        if self.objects.get("ConfigMap", REQUESTS) is None:
            with suppress(ChangedError):  # somebody else asks at the same moment
                self.objects.write("ConfigMap", _object(REQUESTS, {}))
        self.objects.merge("ConfigMap", REQUESTS, {"data": {key: asked.model_dump_json()}})

    def requests(self, number: int) -> Mapping[str, Asked]:
        """Read the requests that wait, by their keys, the oldest first."""
        item = self.objects.get("ConfigMap", REQUESTS) or {}
        found = {}
        for key, text in (item.get("data") or {}).items():
            if key.startswith(f"{number:04}-"):
                with suppress(ValidationError):  # nobody asked so; it must not end the driver
                    found[key] = Asked.model_validate_json(text)
        return dict(sorted(found.items(), key=lambda item: item[1].at_s))

    def _records(self) -> Mapping[int, Object]:
        """Give the records by their number; what only has the label is none."""
        found = {}
        for item in self.objects.list("ConfigMap", LABEL):
            number = _count(item["metadata"]["labels"][LABEL])
            if number is not None and item["metadata"]["name"] == _name(number):
                found[number] = item
        return found

    def forget(self, keys: Iterable[str]) -> None:
        """Remove requests that are in the record."""
        if gone := dict.fromkeys(keys):
            self.objects.merge("ConfigMap", REQUESTS, {"data": gone})


def _gzip() -> zlib._Compress:
    return zlib.compressobj(wbits=31)


def _name(number: int) -> str:
    return f"k3fleet-rollout-{number:04}"


def _entries(item: Object) -> int | None:
    return _count((item["metadata"].get("annotations") or {}).get(ENTRIES))


def _count(text: str | None) -> int | None:
    """Read what we write, and nothing else."""
    return int(text) if text and _COUNT.fullmatch(text) else None


def _empty(number: int) -> dict[str, Any]:
    return _object(_name(number), {LABEL: str(number)})


def _object(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    part = {"app.kubernetes.io/part-of": "k3fleet"}
    metadata = {"name": name, "labels": {**part, **labels}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _unpacked(region: str, item: Object) -> tuple[Entry, ...]:
    try:
        data = base64.b64decode(item["binaryData"][RECORD_KEY])
        lines = zlib.decompressobj(wbits=31).decompress(data, MAX_BYTES).splitlines()
        return tuple(_ENTRY.validate_json(line) for line in lines)
    except (KeyError, ValueError, zlib.error, ValidationError) as error:
        name = item["metadata"]["name"]
        raise ApplyError(
            f"{region}: ConfigMap {name} is no record of a rollout. Restore it, or remove it and "
            "go on from the working copy that has the record's file."
        ) from error
