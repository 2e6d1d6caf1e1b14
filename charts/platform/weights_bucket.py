"""Read a revision from an S3-compatible bucket, with nothing but the standard library.

Beside stage-weights.py, in the same image. A request is signed (AWS Signature Version 4) with what
the pod's environment has: keys from a Secret, or those that EKS Pod Identity hands out; without
either it is sent as nobody's, to a bucket that anybody may read.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

MANIFEST = "k3fleet-manifest.json"
FORMAT = "k3fleet-weights/v1"
NAME = re.compile(r"[A-Za-z0-9_.+=@,-]{1,255}(/[A-Za-z0-9_.+=@,-]{1,255})*")
RESERVED = re.compile(r"\.cache|\.k3fleet.*|k3fleet-.*")

Json = dict[str, Any]

READ_BYTES = 8 * 1024 * 1024
RANGE_BYTES = 256 * 1024 * 1024  # one request: a broken one costs no more
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
FILES_AT_ONCE = 8
ATTEMPTS, PAUSE_S = 6, 2.0  # of one range; the pause doubles
TIMEOUT_S = 60
NO_PAYLOAD = hashlib.sha256(b"").hexdigest()


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no one elsewhere: urllib would take the signature and the session token along."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse; the answer becomes an HTTPError."""


OPENER = urllib.request.build_opener(NoRedirect)


class BucketError(Exception):
    """The bucket cannot give what it should; `passes`: asking again may help."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


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
            while count > 0 and (chunk := answer.read(min(READ_BYTES, count))):
                count -= len(chunk)
                yield chunk
    except urllib.error.HTTPError as error:
        fix = {403: "Check the rights of its key.", 404: "Run `k3fleet weights sync`."}
        raise BucketError(
            f"{where}: HTTP {error.code}. {fix.get(error.code, 'Ask its owner.')}",
            passes=error.code >= 500 or error.code == 429,
        ) from error
    except (OSError, http.client.HTTPException) as error:
        told = f"{where}: {error}. Check the way to the bucket."
        raise BucketError(told, passes=True) from error


def signature(bucket: Json, url: str) -> dict[str, str]:
    """Sign a GET (AWS documentation, "Create a signed AWS API request"); {} without keys."""
    keys = credentials()
    if keys is None:
        return {}
    parts = urlsplit(url)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": parts.netloc, "x-amz-content-sha256": NO_PAYLOAD, "x-amz-date": now}
    if keys.get("token"):
        signed["x-amz-security-token"] = keys["token"]
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = f"GET\n{parts.path}\n{parts.query}\n{lines}\n{names}\n{NO_PAYLOAD}"
    scope = f"{now[:8]}/{bucket['region']}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys['secret']}".encode()
    for step in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    proof = f"Credential={keys['id']}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    del signed["host"]  # urllib sends it
    return {**signed, "Authorization": f"AWS4-HMAC-SHA256 {proof}"}


def credentials() -> dict[str, str] | None:
    """Find keys: of a Secret in the environment, or of EKS Pod Identity, anew each time."""
    if key_id := os.environ.get("AWS_ACCESS_KEY_ID"):
        secret, token = os.environ["AWS_SECRET_ACCESS_KEY"], os.environ.get("AWS_SESSION_TOKEN", "")
        return {"id": key_id, "secret": secret, "token": token}
    url = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not url:
        return None
    token = Path(os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text()
    request = urllib.request.Request(url, headers={"Authorization": token})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            found = json.load(answer)
        return {
            "id": found["AccessKeyId"],
            "secret": found["SecretAccessKey"],
            "token": found["Token"],
        }
    except (OSError, ValueError, KeyError) as error:
        told = f"Pod Identity: {type(error).__name__}. Check its agent on this node."
        raise BucketError(told, passes=True) from error
