"""Know what lies on the node's disk: which revisions are whole, and what is in their files.

Beside stage-weights.py, in the same image, with nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ITEM = ".k3fleet-item.json"  # whose weights these are; a folder without it is not ours
MANIFEST = ".k3fleet-manifest.json"
MARKER = ".k3fleet-ready"  # holds the digest of the manifest; written last
OURS = (ITEM, MANIFEST, MARKER)
HUB_CACHE = ".cache"  # what `hf download --local-dir` remembers about its files
HUB_METADATA = Path(HUB_CACHE, "huggingface", "download")
PARTIAL, DELETED = ".partial", ".deleted"

Json = dict[str, Any]

READ_BYTES = 16 * 1024 * 1024


def whole_revisions(root: Path) -> set[str]:
    done = [folder for folder in root.iterdir() if folder.suffix not in (PARTIAL, DELETED)]
    return {folder.name for folder in done if is_whole(folder)}


def is_whole(folder: Path) -> bool:
    """Compare a folder with its manifest; a file is read again only if its time changed."""
    manifest = read_manifest(folder)
    return manifest is not None and not damaged(folder, manifest)


def read_manifest(folder: Path) -> Json | None:
    try:
        content = (folder / MANIFEST).read_bytes()
        marker = (folder / MARKER).read_text()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != marker:
        return None
    manifest: Json = json.loads(content)
    return manifest


def damaged(folder: Path, manifest: Json) -> list[str]:
    """List the files that are missing or have changed since the manifest was written."""

    def differs(name: str, noted: Json) -> bool:
        try:
            found = (folder / name).stat()
        except OSError:
            return True
        if found.st_size != noted["bytes"]:
            return True
        if found.st_mtime_ns != noted["mtime_ns"]:
            if digests(folder / name)[0] != noted["sha256"]:
                return True
            os.utime(folder / name, ns=(noted["mtime_ns"], noted["mtime_ns"]))  # read it only once
        return False

    return [name for name, noted in manifest["files"].items() if differs(name, noted)]


def inspect(folder: Path, wanted: Json) -> tuple[dict[str, Json], list[str]]:
    """Describe every file, and list those whose content is not what was announced."""
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in (*OURS, HUB_CACHE)
    )
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        found = dict(zip(names, pool.map(lambda name: digests(folder / name), names), strict=True))
    files, wrong = {}, []
    for name, (sha256, blob) in found.items():
        status = (folder / name).stat()
        files[name] = {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}
        if wanted.get(name, announced(folder, name)) not in (None, sha256, blob):
            wrong.append(name)
    return files, wrong


def announced(folder: Path, name: str) -> str | None:
    """Give the hub's digest: SHA-256 of a large file, git's blob id of a small one."""
    try:
        lines = (folder / HUB_METADATA / f"{name}.metadata").read_text().splitlines()
    except OSError:
        return None
    tag = lines[1].strip('"') if len(lines) > 1 else ""
    return tag if len(tag) in (40, 64) else None


def digests(path: Path) -> tuple[str, str]:
    sha256 = hashlib.sha256()
    blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            sha256.update(chunk)
            blob.update(chunk)
    return sha256.hexdigest(), blob.hexdigest()


def forget(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / HUB_METADATA / f"{name}.metadata").unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    scratch = path.with_name(path.name + ".new")
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(path)
