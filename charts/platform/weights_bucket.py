"""Read a revision from an S3-compatible bucket, with nothing but the standard library.

Beside stage-weights.py, in the same image; weights_signing.py says who asks.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from weights_signing import OPENER, TIMEOUT_S, BucketError, signature

MANIFEST = "k3fleet-manifest.json"
FORMAT = "k3fleet-weights/v1"
NAME = re.compile(r"[A-Za-z0-9_.+=@,-]{1,255}(/[A-Za-z0-9_.+=@,-]{1,255})*")
RESERVED = re.compile(r"\.cache|\.k3fleet.*|k3fleet-.*")

Json = dict[str, Any]

PIECE_BYTES = 256 * 1024  # of one look at the connection
RANGE_BYTES = 256 * 1024 * 1024  # one request: a broken one costs no more
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
FILES_AT_ONCE = 8
ATTEMPTS, PAUSE_S = 6, 2.0  # of one range; the pause doubles
# An answer that brings less in that time is given up: each byte resets TIMEOUT_S.
FLOOR_BYTES, FLOOR_S = 1024 * 1024, 30.0


def fetch(bucket: Json, item: Json, folder: Path) -> dict[str, str]:
    """Bring every file of a revision into a folder; give the SHA-256 that each must have.

    Files that are there in full are kept, and what is there of others is gone on with: their
    digests are compared afterwards, by the caller, as with what comes from the hub.
    """
    manifest = read_manifest(bucket, item)
    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        jobs = [
            pool.submit(fetch_file, bucket, item["revision"], entry, folder)
            for entry in manifest["files"]
        ]
        for job in jobs:
            job.result()
    return {entry["name"]: entry["sha256"] for entry in manifest["files"]}


def read_manifest(bucket: Json, item: Json) -> Json:
    """Read the manifest, which is written last: without it the revision is not there yet."""
    where = f"{bucket['url']}: {item['revision']}/{MANIFEST}"
    content = b"".join(ask(bucket, f"{item['revision']}/{MANIFEST}", 0, MAX_MANIFEST_BYTES))
    if item.get("manifest") not in (None, hashlib.sha256(content).hexdigest()):
        raise BucketError(f"{where}: is not the one that the fleet file pins. Find out why.")
    try:
        manifest: Json = json.loads(content)
        right = (manifest["format"], manifest["repo"], manifest["revision"])
        names = [entry["name"] for entry in manifest["files"]]
        sound = all(int(entry["bytes"]) >= 0 and entry["sha256"] for entry in manifest["files"])
        whole = bool(names) and manifest.get("content_sha256") == content_digest(manifest)
    except (ValueError, ArithmeticError, TypeError, KeyError, RecursionError) as error:
        raise BucketError(f"{where}: is no manifest. Run `k3fleet weights verify`.") from error
    if right != (FORMAT, item["repo"], item["revision"]) or not sound:
        raise BucketError(f"{where}: is of another model. Run `k3fleet weights verify`.")
    wrong = [name for name in names if not is_safe(name)]
    if wrong or len({name.casefold() for name in names}) != len(names):
        raise BucketError(f"{where}: names files that lead elsewhere. Do not use this bucket.")
    if not whole:
        raise BucketError(f"{where}: was damaged or edited. Run `k3fleet weights verify`.")
    return manifest


def content_digest(manifest: Json) -> str:
    """Compute what a manifest says of itself, as fleet/weights/manifest.py does."""
    content = {key: value for key, value in manifest.items() if key != "content_sha256"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def is_safe(name: object) -> bool:
    """Say whether a name stays below its folder; it becomes a path, and we are root."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return False
    parts = name.split("/")
    return not {".", ".."} & set(parts) and not RESERVED.fullmatch(parts[0].casefold())


def fetch_file(bucket: Json, revision: str, entry: Json, folder: Path) -> None:
    """Go on with one file from the bytes that are there."""
    path = folder / entry["name"]
    path.parent.mkdir(parents=True, exist_ok=True)
    size = int(entry["bytes"])
    with path.open("ab") as file:
        if file.tell() > size:
            file.seek(0)
            file.truncate()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                fetch_rest(bucket, f"{revision}/{entry['name']}", size, file)
            except BucketError as error:
                if attempt == ATTEMPTS or not error.passes:
                    raise
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
            else:
                return


def fetch_rest(bucket: Json, name: str, size: int, file: Any) -> None:
    while (start := file.tell()) < size:
        for chunk in ask(bucket, name, start, min(RANGE_BYTES, size - start)):
            file.write(chunk)
        if file.tell() == start:
            raise BucketError(
                f"{bucket['url']}: {name}: ends at byte {start} of {size}. Verify it."
            )


def ask(bucket: Json, name: str, start: int, count: int) -> Iterator[bytes]:
    """Ask for bytes of an object; at most `count` of them are given."""
    url = f"{bucket['url']}/{quote(bucket['prefix'] + name, safe='/~')}"
    headers = {"Range": f"bytes={start}-{start + count - 1}"}
    request = urllib.request.Request(url, headers=headers | signature(bucket, url))  # noqa: S310
    where = f"{bucket['url']}: {name}"
    try:
        with OPENER.open(request, timeout=TIMEOUT_S) as answer:
            yield from pieces(answer, count, where)
    except urllib.error.HTTPError as error:
        fix = {403: "Check the rights of its key.", 404: "Run `k3fleet weights sync`."}
        raise BucketError(
            f"{where}: HTTP {error.code}. {fix.get(error.code, 'Ask its owner.')}",
            passes=error.code >= 500 or error.code == 429,
        ) from error
    except (OSError, http.client.HTTPException) as error:
        told = f"{where}: {error}. Check the way to the bucket."
        raise BucketError(told, passes=True) from error


def pieces(
    answer: Any, count: int, where: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[bytes]:
    """Read what comes, as it comes; BucketError when it only trickles."""
    came, waited_s = 0, 0.0
    while count > 0:
        began_s = clock()
        piece = answer.read1(min(PIECE_BYTES, count))
        waited_s += clock() - began_s
        if not piece:
            return
        count -= len(piece)
        came += len(piece)
        yield piece
        if came >= FLOOR_BYTES:
            came, waited_s = 0, 0.0
        elif waited_s >= FLOOR_S:
            raise BucketError(
                f"{where}: trickles: {came} bytes in {waited_s:.0f} s. "
                "Look at the store and the way to it.",
                passes=True,
            )
