"""An object that no store copies in one request, in a store that keeps none of its bytes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from s3_servers import CREDENTIALS
from weights_site import BUCKETS, SOURCE, Site, shard_name

STORE = Path(__file__).parents[3] / "benchmarks/virtual_s3.py"
K3FLEET = str(Path(sys.executable).with_name("k3fleet"))
GIB = 1024**3
# One request copies or uploads 5 GiB at most; the store refuses more, as Amazon's does.
SIZE = 5 * GIB + 4096
COPY_BYTES = 256 * 1024**2
MAX_KIB = 500 * 1024  # of the whole process, as for a sync of all shards


@contextmanager
def virtual_store(site: Site) -> Iterator[str]:
    """Run a store whose source has one large shard."""
    told = {
        "virtual": {f"{SOURCE}/{site.key(shard_name(1, 1))}": SIZE},
        "small": {f"{SOURCE}/{site.key('config.json')}": base64.b64encode(b"{}").decode()},
    }
    with subprocess.Popen(
        [sys.executable, str(STORE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


@pytest.mark.lab
def test_an_object_over_5_gib_is_copied_in_parts_and_read_back(tmp_path: Path) -> None:
    """Shards of 16 GiB are; read twice, the second time from where it was copied to."""
    site = Site(folder=tmp_path, kind="moto", url="http://127.0.0.1:9")
    with virtual_store(site) as url:
        site.ask = site.target_ask = url
        site.write_fleet()
        words = [K3FLEET, "weights", "sync", str(site.fleet_file), "--no-tokenizer"]
        process = subprocess.Popen(words, cwd=tmp_path, env={**os.environ, **CREDENTIALS})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with urllib.request.urlopen(f"{url}/_counts", timeout=60) as answer:  # noqa: S310 - ours
            counts = json.load(answer)
        reader = Site(folder=tmp_path, kind="moto", url=url, prefix=site.prefix)
        manifest = json.loads(reader.get(BUCKETS["us-east"], "k3fleet-manifest.json"))
    assert process.returncode == 0
    assert counts == {"parts": -(-SIZE // COPY_BYTES), "bytes": SIZE}
    assert SIZE in [one["bytes"] for one in manifest["files"]]
    assert usage.ru_maxrss < MAX_KIB
