"""Keep the weights that a node needs on its own disk, and say so on the node.

Runs in a pod on every node of a rack, in an image that holds `hf`, with nothing
but the standard library. It may be killed at any moment:

- a revision is downloaded into `<revision>.partial`, from the region's bucket or
  the hub; what an earlier attempt left is gone on with, and the folder gets its
  name only when it is whole;
- whole means that every file has the digest that its source gives; sizes,
  times and digests are kept in a manifest, and a marker is written last;
- the node's label for a revision is there only while its folder is whole, so
  an engine never starts from half of the weights.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import weights_bucket
from weights_disk import (
    DELETED,
    ITEM,
    MANIFEST,
    MARKER,
    PARTIAL,
    damaged,
    forget,
    inspect,
    is_whole,
    read_manifest,
    whole_revisions,
    write,
)

Json = dict[str, Any]

ATTEMPTS = 3  # a file that is wrong after three downloads is wrong at its source
API_TIMEOUT_S = 30


class StageError(Exception):
    """Something that the next round, or a person, has to repair."""


def main(plan_file: Path, once: bool) -> None:
    """Bring the node to the plan, again and again; end with an error that kubelet retries."""
    plan = json.loads(plan_file.read_text())
    root = Path(plan["root"])
    with (root / ".k3fleet-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the pod before this one may still be dying
        while True:
            stage(plan, root)
            if once:
                return
            time.sleep(plan["interval_s"])


def stage(plan: Json, root: Path) -> None:
    """Check what is there, drop what is old, fetch what is missing."""
    set_labels(plan, whole_revisions(root))
    collect_garbage(plan, root)
    problems = []
    for item in plan["wanted"]:
        marker = root / item["revision"] / MARKER
        if is_whole(marker.parent):
            os.utime(marker)  # when it was last wanted decides what is dropped first
            continue
        try:
            fetch(plan, root, item)
        except StageError as error:
            problems.append(str(error))
        set_labels(plan, whole_revisions(root))
    if problems:
        raise StageError("\n".join(problems))


def fetch(plan: Json, root: Path, item: Json) -> None:
    """Make the folder of one revision whole."""
    final, partial = root / item["revision"], root / (item["revision"] + PARTIAL)
    if final.exists():
        reopen(final, partial)
    partial.mkdir(exist_ok=True)
    (partial / MARKER).unlink(missing_ok=True)
    write(partial / ITEM, json.dumps(item).encode())
    for attempt in range(1, ATTEMPTS + 1):
        files, wrong = inspect(partial, download(plan, partial, item))
        if not wrong:
            break
        logging.warning("%s: attempt %d: wrong content: %s", final.name, attempt, ", ".join(wrong))
        forget(partial, wrong)
    else:
        raise StageError(
            f"{item['repo']} {final.name}: {', '.join(wrong)}: wrong after {ATTEMPTS} downloads. "
            "Check the disk of this node, and the file at its source."
        )
    manifest = json.dumps({**item, "files": files}, sort_keys=True).encode()
    write(partial / MANIFEST, manifest)
    write(partial / MARKER, hashlib.sha256(manifest).hexdigest().encode())
    partial.rename(final)
    logging.info("%s: whole, %d files", final.name, len(files))


def reopen(final: Path, partial: Path) -> None:
    """Take a damaged folder back into work, without its damaged files."""
    manifest = read_manifest(final)
    wrong = damaged(final, manifest) if manifest else []
    if partial.exists():
        shutil.rmtree(partial)
    (final / MARKER).unlink(missing_ok=True)
    final.rename(partial)
    logging.warning("%s: not whole, repairing: %s", final.name, ", ".join(wrong) or "no marker")
    forget(partial, wrong)


def download(plan: Json, partial: Path, item: Json) -> Json:
    """Bring the files; give the digests that a bucket's manifest announces, by name."""
    bucket = plan.get("bucket")
    if bucket is None:
        download_from_hub(partial, item)
        return {}
    try:
        return weights_bucket.fetch(bucket, item, partial)
    except (weights_bucket.BucketError, OSError) as error:
        if not bucket["hub_fallback"]:
            raise StageError(f"{item['repo']} {item['revision']}: {error}") from error
        logging.warning("%s: %s Asking the hub instead.", item["revision"], error)
    download_from_hub(partial, item)
    return {}


def download_from_hub(partial: Path, item: Json) -> None:
    command = ["hf", "download", item["repo"], "--revision", item["revision"]]
    try:
        subprocess.run([*command, "--local-dir", str(partial)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StageError(
            f"{item['repo']} {item['revision']}: download failed: {error}. Read the lines above: "
            "network, token and free space of the node are the usual reasons."
        ) from error


def collect_garbage(plan: Json, root: Path) -> None:
    """Drop revisions that nobody wants, except the last ones of each repository."""
    wanted = {item["revision"] for item in plan["wanted"]}
    previous: dict[str, list[tuple[float, Path]]] = {}
    for folder in list(root.iterdir()):
        if folder.suffix == DELETED:
            shutil.rmtree(folder)
        elif (folder / ITEM).is_file() and folder.name.removesuffix(PARTIAL) not in wanted:
            if folder.suffix == PARTIAL or not (folder / MARKER).is_file():
                drop(plan, folder)
                continue
            repo = json.loads((folder / ITEM).read_text())["repo"]
            last_wanted = (folder / MARKER).stat().st_mtime
            previous.setdefault(repo, []).append((last_wanted, folder))
    for folders in previous.values():
        for _, folder in sorted(folders, reverse=True)[plan["keep_previous"] :]:
            drop(plan, folder)


def drop(plan: Json, folder: Path) -> None:
    logging.info("%s: nobody wants it, dropping", folder.name)
    set_labels(plan, whole_revisions(folder.parent) - {folder.name})
    gone = folder.with_name(folder.name + DELETED)
    folder.rename(gone)
    shutil.rmtree(gone)


def set_labels(plan: Json, revisions: set[str]) -> None:
    """Label this node with the revisions that are whole, and with no other."""
    node = json.loads(api(plan, "GET"))
    prefix = plan["label_prefix"]
    now = {
        name: value
        for name, value in node["metadata"].get("labels", {}).items()
        if name.startswith(prefix)
    }
    right = {prefix + revision: plan["label_value"] for revision in revisions}
    changes: dict[str, str | None] = dict.fromkeys(now.keys() - right.keys())
    changes |= {name: value for name, value in right.items() if now.get(name) != value}
    if changes:
        api(plan, "PATCH", {"metadata": {"labels": changes}})


def api(plan: Json, method: str, body: object = None) -> bytes:
    account = Path(plan["account"])
    request = urllib.request.Request(  # noqa: S310 - the address is part of the chart
        f"{plan['api']}/api/v1/nodes/{os.environ['NODE_NAME']}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {(account / 'token').read_text()}",
            "Content-Type": "application/merge-patch+json",
        },
    )
    trust = None
    if plan["api"].startswith("https:"):
        trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=API_TIMEOUT_S, context=trust) as answer:  # noqa: S310
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        said = error.read(1000).decode(errors="replace")
        raise StageError(
            f"{method} node: HTTP {error.code}: {said}. Check the role of account weights-stage."
        ) from error
    except OSError as error:
        raise StageError(f"{method} node: {error}. Check the way to the API server.") from error


def stop(_signal: int, _frame: object) -> None:
    """End at once; as the first process of a container, Python would ignore the signal."""
    sys.exit(0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, stop)
    try:
        main(Path(sys.argv[1]), once="--once" in sys.argv[2:])
    except StageError as problem:
        sys.exit(str(problem))
