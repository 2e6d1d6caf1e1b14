"""A fleet with buckets, its weights, and one run of a sync: in this process, or in one to kill."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import service_models
import yaml
from botocore.config import Config
from s3_servers import CHECKSUM, Proxy

from fleet.load import Fleet, load_fleet
from fleet.weights.needs import WeightSet, needed_by
from infra.rollout.lease import Holder, Time
from infra.rollout.process import is_gone, own_process
from infra.weights.file_copy import CheckBy
from infra.weights.fill import Filling
from infra.weights.lock import LOCK
from infra.weights.places import Places
from infra.weights.work import Limits

service_models.share()  # a session for each bucket: 0.2 s of reading else

SOURCE, BUCKETS = "k3-source", {"us-east": "k3-us-east", "eu-west": "k3-eu-west"}
PART_BYTES = 4096
SMALL_LIMITS = Limits(concurrency=4, part_bytes=PART_BYTES, copy_bytes=PART_BYTES, whole_bytes=1024)


def shard_name(number: int, count: int) -> str:
    return f"model-{number:05}-of-{count:06}.safetensors"


def model_files(shards: int, seed: int = 1, shard_bytes: int = 3 * PART_BYTES) -> dict[str, bytes]:
    """Make the files of a model: shards of one size, as the real ones nearly are."""
    rng = random.Random(seed)  # noqa: S311 - content for tests
    names = [shard_name(number, shards) for number in range(1, shards + 1)]
    files = {name: rng.randbytes(shard_bytes - rng.randrange(64)) for name in names}
    files["config.json"] = b"{}"
    files["tokenizer.json"] = rng.randbytes(900)
    return files


@functools.cache
def client(url: str) -> Any:
    """Make a client for the test's own requests."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - no store here looks at it
        config=Config(
            retries={"total_max_attempts": 1}, request_checksum_calculation="when_required"
        ),
    )


_numbers = itertools.count(1)


@dataclass(kw_only=True)
class Site:
    """A fleet on disk, and its stores."""

    folder: Path
    kind: str
    url: str  # of the store itself
    ask: str = ""  # where k3fleet asks: a proxy, or the store
    regions: tuple[str, ...] = ("us-east",)
    # Where regions are reached. Another address than the source's: bytes come past here.
    target_ask: str = ""
    # Of its own in each test: then nobody has to empty buckets.
    prefix: str = field(default_factory=lambda: f"models-{next(_numbers)}")
    said: list[str] = field(default_factory=list)
    proxy: Proxy = field(default_factory=lambda: Proxy(target=""))  # what k3fleet asks

    def __post_init__(self) -> None:
        self.client = client(self.url)
        self.ask = self.ask or self.url
        self.target_ask = self.target_ask or self.ask
        self.write_fleet()

    def write_fleet(self, **weights: Any) -> None:
        def store(bucket: str, url: str) -> dict[str, Any]:
            checksum = CHECKSUM[self.kind]
            return {
                "bucket": bucket,
                "prefix": self.prefix,
                "endpoint_url": url,
                "checksum": checksum,
            }

        data = {
            "apiVersion": "k3fleet/v1",
            "name": "demo",
            "release": "vllm-tp8-dcp8",
            "regions": [{"name": name, "racks": [{"id": f"{name}-r1"}]} for name in self.regions],
            "weights": {
                "source": store(SOURCE, self.ask),
                "regions": {name: store(BUCKETS[name], self.target_ask) for name in self.regions},
                **weights,
            },
        }
        self.fleet_file.write_text(yaml.safe_dump(data))

    @property
    def fleet_file(self) -> Path:
        return self.folder / "fleet.yaml"

    @property
    def work_dir(self) -> Path:
        return self.folder / "work"

    def fleet(self) -> Fleet:
        return load_fleet(self.fleet_file)

    @cached_property
    def weights(self) -> WeightSet:
        fleet = self.fleet()
        return WeightSet(repo=fleet.model.repo, revision=fleet.release.weights.revision)

    def make_buckets(self) -> None:
        """Make the buckets, unless an earlier test has."""
        known = {one["Name"] for one in self.client.list_buckets()["Buckets"]}
        for bucket in (SOURCE, *BUCKETS.values()):
            if bucket not in known:
                self.client.create_bucket(Bucket=bucket)
                self.client.put_bucket_versioning(
                    Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
                )

    @property
    def lock_key(self) -> str:
        return f"{self.prefix}/{LOCK}"

    def uploads(self, bucket: str) -> list[dict[str, Any]]:
        """List the uploads that were begun and not ended."""
        found = self.client.list_multipart_uploads(Bucket=bucket, Prefix=f"{self.prefix}/")
        return list(found.get("Uploads", ()))

    def keys(self, bucket: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{self.prefix}/"
        )
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def key(self, name: str) -> str:
        return f"{self.prefix}/{self.weights.revision}/{name}"

    def put(self, bucket: str, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=bucket, Key=self.key(name), Body=content)

    def get(self, bucket: str, name: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=bucket, Key=self.key(name))["Body"].read()
        return body

    def publish(self, files: dict[str, bytes]) -> None:
        """Put a revision at the source."""
        for name, content in files.items():
            self.put(SOURCE, name, content)

    def digests(self, bucket: str) -> dict[str, str]:
        """Read a revision back: names below its folder, with their SHA-256, without our own."""
        start = self.key("")
        names = [key.removeprefix(start) for key in self.keys(bucket) if key.startswith(start)]
        return {
            name: hashlib.sha256(self.get(bucket, name)).hexdigest()
            for name in names
            if not name.startswith("k3fleet-")
        }

    def places(self, limits: Limits = SMALL_LIMITS) -> Places:
        return Places(
            fleet=self.fleet(),
            work_dir=self.work_dir,
            time=Time(clock=time.monotonic, now=lambda: datetime.now(UTC), pause=time.sleep),
            me=Holder(name="test", process=own_process(), is_gone=is_gone),
            limits=limits,
            say=self.said.append,
        )

    def filling(self, check_by: CheckBy = "reading", limits: Limits = SMALL_LIMITS) -> Filling:
        places = self.places(limits)
        needed = needed_by(places.fleet.model, {"demo": places.fleet.release})
        return Filling(places=places, needed=needed, regions=self.regions, check_by=check_by)

    def sync(self, check_by: CheckBy = "reading", limits: Limits = SMALL_LIMITS) -> None:
        self.filling(check_by, limits).run(lambda _works: None)

    def told(self) -> dict[str, Any]:
        """Say what another process needs to be the same site."""
        return {
            "folder": str(self.folder),
            "kind": self.kind,
            "url": self.url,
            "ask": self.ask,
            "target_ask": self.target_ask,
            "regions": list(self.regions),
            "prefix": self.prefix,
        }

    @classmethod
    def of(cls, told: dict[str, Any]) -> Site:
        """Make it from what was said."""
        return cls(**{**told, "folder": Path(told["folder"]), "regions": tuple(told["regions"])})
