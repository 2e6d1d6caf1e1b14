"""Start a store whose objects are only as large as they say, with a revision of weights in it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.weights.manifest import Manifest

SERVER = Path(__file__).with_name("virtual_s3.py")


@contextmanager
def virtual_store(place: str, manifest: Manifest, **limits: int) -> Iterator[str]:
    """Hold a revision below a bucket, or `BUCKET/PREFIX`, until the block ends; give the address.

    `limits`: of the server's `Objects`, such as `max_parts`.
    """
    folder = f"{place}/{manifest.revision}"
    small = {"config.json": b"{}", "k3fleet-manifest.json": manifest.to_bytes()}
    told = {
        "virtual": {f"{folder}/{e.name}": e.bytes for e in manifest.files if e.name not in small},
        "small": {
            f"{folder}/{name}": base64.b64encode(content).decode()
            for name, content in small.items()
        },
        "limits": limits,
    }
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()
