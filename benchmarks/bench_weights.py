"""Measure a copy of weights: its speed beside boto3's transfer manager, and the memory it takes.

Both talk to one store on loopback, a process that makes bytes as they are asked for and keeps none
(`virtual_store`), and take turns; the ratio of each pair holds on a machine that others use too.
Two ways: bytes come through this machine (the rival: upload_fileobj of a body), and the store
copies (the rival: client.copy; files of 16 GiB, since none of their bytes move). Ours is measured
with the store's checksum believed, as the rival does, and, where bytes move, with every byte read
back, which the rival never does.

Memory: a sync of 96 x 16 GiB, virtual, in a process of its own that is ended after a sample of its
98,304 parts; what it holds grows with the parts at once and not with those behind them.

Exit code 1: ours is slower than the rival, or takes more than 500 MiB.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from awscrt import checksums

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from virtual_s3 import BLOCK, BLOCK_BYTES
from virtual_store import virtual_store

from fleet.load import load_fleet
from fleet.weights.manifest import FileEntry, Manifest, make_manifest
from fleet.weights.needs import WeightSet, needed_by
from infra.rollout.lease import Holder, Time
from infra.rollout.process import is_gone, own_process
from infra.weights.file_copy import CheckBy
from infra.weights.fill import Filling
from infra.weights.places import Places
from infra.weights.work import Limits

MIB, GIB = 1024**2, 1024**3
FILES, FILE_BYTES, PAIRS = 4, 256 * MIB, 3
SHARDS, SHARD_BYTES, SAMPLE_PARTS = 96, 16 * GIB, 200
LIMIT_MIB, LEAST_RATIO = 500, 1.0
SOURCE, TARGET = "k3-source", "k3-target"
RELEASE = "vllm-tp8-dcp8"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}


def shards(count: int, size: int, sha256: str, crc: str) -> dict[str, FileEntry]:
    """Describe virtual shards, and the small files beside them."""
    small = hashlib.sha256(b"{}").hexdigest(), f"{checksums.crc64nvme(b'{}'):016x}"
    found = {
        "config.json": FileEntry(name="config.json", bytes=2, sha256=small[0], crc64nvme=small[1])
    }
    for number in range(1, count + 1):
        name = f"model-{number:05}-of-{count:06}.safetensors"
        found[name] = FileEntry(name=name, bytes=size, sha256=sha256, crc64nvme=crc)
    return found


def block_digests(size: int) -> tuple[str, str]:
    """Compute the digests of a virtual object."""
    sha256, crc = hashlib.sha256(), 0
    for _ in range(size // BLOCK_BYTES):
        sha256.update(BLOCK)
        crc = checksums.crc64nvme(BLOCK, crc)
    return sha256.hexdigest(), f"{crc:016x}"


def fleet_file(folder: Path, url: str, *, through_us: bool) -> Path:
    """Write a fleet; another name of the same address makes the bytes come past here."""
    target = url.replace("127.0.0.1", "localhost") if through_us else url
    data = {
        "apiVersion": "k3fleet/v1",
        "name": "bench",
        "release": RELEASE,
        "regions": [{"name": "us-east", "racks": [{"id": "use1-r01"}]}],
        "weights": {
            "source": {"bucket": SOURCE, "endpoint_url": url},
            "regions": {"us-east": {"bucket": TARGET, "endpoint_url": target}},
        },
    }
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def weights_of(path: Path) -> WeightSet:
    """Name the weights of a fleet."""
    fleet = load_fleet(path)
    return WeightSet(repo=fleet.model.repo, revision=fleet.release.weights.revision)


def filling(path: Path, check_by: CheckBy) -> Filling:
    """Prepare to fill the region, as the command does."""
    fleet = load_fleet(path)
    places = Places(
        fleet=fleet,
        work_dir=Path(tempfile.mkdtemp(dir=path.parent)),
        time=Time(clock=time.monotonic, now=lambda: datetime.now(UTC), pause=time.sleep),
        me=Holder(name="bench", process=own_process(), is_gone=is_gone),
        limits=Limits(),
    )
    needed = needed_by(fleet.model, {"bench": fleet.release})
    return Filling(places=places, needed=needed, regions=("us-east",), check_by=check_by)


def rival(url: str, manifest: Manifest, *, through_us: bool) -> None:
    """Copy with boto3's transfer manager as it comes, file by file."""
    import boto3  # noqa: PLC0415 - its import is not the cost of a copy

    client: Any = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    for entry in manifest.files:
        source = {"Bucket": SOURCE, "Key": f"{manifest.revision}/{entry.name}"}
        to = {"Bucket": TARGET, "Key": f"rival/{entry.name}"}
        if entry.bytes <= BLOCK_BYTES:
            continue
        if through_us:
            client.upload_fileobj(client.get_object(**source)["Body"], **to)
        else:
            client.copy(source, **to)


def seconds(action: Callable[[], None]) -> float:
    """Time something."""
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


def speeds(folder: Path, *, through_us: bool) -> float:
    """Let ours and the rival take turns; print and give the median ratio of their speeds."""
    size = FILE_BYTES if through_us else SHARD_BYTES
    digests = block_digests(size) if through_us else ("a" * 64, "b" * 16)
    ways: tuple[CheckBy, ...] = ("checksum", "reading") if through_us else ("checksum",)
    rows: dict[str, list[float]] = {name: [] for name in ("rival", *ways)}
    for _ in range(PAIRS):
        path = fleet_file(folder, "http://127.0.0.1:9", through_us=through_us)
        manifest = make_manifest(weights_of(path), shards(FILES, size, *digests))
        with virtual_store(SOURCE, manifest) as url:
            rows["rival"].append(seconds(partial(rival, url, manifest, through_us=through_us)))
        for check_by in ways:
            with virtual_store(SOURCE, manifest) as url:
                ours = filling(fleet_file(folder, url, through_us=through_us), check_by)
                rows[check_by].append(seconds(partial(ours.run, lambda _: None)))
    ratios = sorted(r / o for r, o in zip(rows["rival"], rows["checksum"], strict=True))
    way = "through this machine" if through_us else "copied by the store"
    print(f"{way}: {FILES} files of {size // MIB} MiB")
    for name, times in rows.items():
        print(f"  {name:9} {FILES * size / MIB / median(times):9,.0f} MiB/s  (median of {PAIRS})")
    print(f"  ours to the rival: {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return median(ratios)


def peak_mib(folder: Path) -> float:
    """Sync 96 x 16 GiB in a process of its own, end it after a sample, and give its peak."""
    path = fleet_file(folder, "http://127.0.0.1:9", through_us=True)
    manifest = make_manifest(weights_of(path), shards(SHARDS, SHARD_BYTES, "a" * 64, "b" * 16))
    with virtual_store(SOURCE, manifest) as url:
        path = fleet_file(folder, url, through_us=True)
        process = subprocess.Popen([sys.executable, __file__, "sync", str(path)])
        while process.poll() is None:
            with urllib.request.urlopen(f"{url}/_counts", timeout=60) as answer:  # noqa: S310 - ours
                counts = json.load(answer)
            if counts["parts"] >= SAMPLE_PARTS:
                process.send_signal(signal.SIGTERM)
                break
            time.sleep(0.2)
        process.wait()
    peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(
        f"sync of {SHARDS} x {SHARD_BYTES // GIB} GiB, ended after {counts['parts']} parts", end=" "
    )
    print(f"({counts['bytes'] / GIB:.1f} GiB): peak {peak_kib / 1024:.0f} MiB, limit {LIMIT_MIB}")
    return peak_kib / 1024


def main() -> int:
    """Print memory and speeds; 1 when a target is missed."""
    os.environ.update(KEYS)
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        peak = peak_mib(Path(name))
        ratios = [speeds(Path(name), through_us=through_us) for through_us in (True, False)]
    return int(peak > LIMIT_MIB or min(ratios) < LEAST_RATIO)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sync", path]:
            filling(Path(path), "checksum").run(lambda _: None)
        case _:
            sys.exit(main())
