"""Files of the size of real shards: the limits of multipart copies, without moving a gigabyte."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from awscrt import checksums
from virtual_store import virtual_store
from weights_site import BUCKETS, SOURCE, Site

from fleet.errors import StoreError
from fleet.weights.manifest import FileEntry, Manifest, make_manifest
from fleet.weights.parts import MAX_PART_BYTES, MIB
from infra.weights.work import Limits

GIB = 1024 * MIB
SHARD = "model-00001-of-000001.safetensors"
EAST = BUCKETS["us-east"]


def large(site: Site, size: int) -> Manifest:
    """Describe a revision of one large shard; nobody ever has its bytes to compare."""
    sha256, crc = hashlib.sha256(b"{}").hexdigest(), f"{checksums.crc64nvme(b'{}'):016x}"
    config = FileEntry(name="config.json", bytes=2, sha256=sha256, crc64nvme=crc)
    shard = FileEntry(name=SHARD, bytes=size, sha256="a" * 64, crc64nvme="b" * 16)
    return make_manifest(site.weights, {one.name: one for one in (config, shard)})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(folder=tmp_path, kind="moto", url="http://127.0.0.1:9")


def copied(site: Site, size: int, limits: Limits, **store: int) -> dict[str, Any]:
    """Have the store copy a shard, and give what it counted."""
    manifest = large(site, size)
    with virtual_store(f"{SOURCE}/{site.prefix}", manifest, **store) as url:
        site.ask = site.target_ask = url
        site.write_fleet()
        site.sync(check_by="checksum", limits=limits)
        with urllib.request.urlopen(f"{url}/_counts", timeout=60) as answer:  # noqa: S310 - ours
            counts: dict[str, Any] = json.load(answer)
    return counts


def test_a_file_above_five_gibibytes_is_copied_in_parts(site: Site) -> None:
    """S3 copies at most 5 GiB in one request; K3's shards have 16."""
    counts = copied(site, 6 * GIB, Limits())
    assert (counts["parts"], counts["bytes"], counts["largest"]) == (24, 6 * GIB, 256 * MIB)


def test_parts_grow_when_there_would_be_too_many(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 takes 10,000; with the store's limit and ours at 20 the same is shown in 19 requests."""
    monkeypatch.setattr("fleet.weights.parts.MAX_PARTS", 20)
    counts = copied(site, 16 * GIB + 1, Limits(), max_parts=20)
    assert counts["bytes"] == 16 * GIB + 1
    assert 256 * MIB < counts["largest"] <= MAX_PART_BYTES
    assert counts["parts"] <= 20


def test_parts_that_a_store_lists_in_pages_are_all_seen(site: Site) -> None:
    """S3 lists 1,000 at once; what is not seen of an upload would be sent for ever."""
    counts = copied(site, 6 * GIB, Limits(), page=10)
    assert counts["parts"] == 24


@pytest.mark.parametrize(
    ("size", "limits", "store"),
    [
        (6 * GIB, replace(Limits(), copy_bytes=6 * GIB), {}),
        (6 * GIB, Limits(), {"max_parts": 20}),
    ],
    ids=["one copy of 6 GiB", "24 parts where 20 are allowed"],
)
def test_the_store_of_these_tests_has_limits(
    site: Site, size: int, limits: Limits, store: dict[str, int]
) -> None:
    """Else the tests above would show nothing."""
    with pytest.raises(StoreError, match=r"InvalidRequest|InvalidArgument"):
        copied(site, size, limits, **store)
