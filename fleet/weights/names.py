"""Say which names files of a model may have, so that they are safe in a bucket and on a disk.

A list of shards comes from outside. A name of it becomes a key, and on every node a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MANIFEST = "k3fleet-manifest.json"  # written last: a folder without it is not whole
NOTES = "k3fleet-notes.json"  # what has been read of a folder, so that it is not read twice
OURS = frozenset({MANIFEST, NOTES})

MAX_NAME_CHARS = 512  # a key may have 1,024 bytes, and a prefix comes before it
_SHOWN = 80
_PART = re.compile(r"[A-Za-z0-9_.+=@,-]{1,255}")
# What hubs and our stage on the nodes keep beside the files of a model.
_RESERVED = re.compile(r"\.cache|\.k3fleet.*|k3fleet-.*")
_SHARD = re.compile(
    r"(?P<stem>.*)-(?P<number>[0-9]{5,6})-of-(?P<count>[0-9]{5,6})(?P<end>\.[a-z]+)"
)


def name_fault(name: str) -> str | None:
    """Say why a file may not have this name; None when it may."""
    if not name:
        return "a name is empty"
    if len(name) > MAX_NAME_CHARS:
        return f"{shown(name)} has {len(name)} characters, {MAX_NAME_CHARS} are allowed"
    for part in name.split("/"):
        if fault := _part_fault(part):
            return f"{shown(name)} {fault}"
    if _RESERVED.fullmatch(name.split("/", maxsplit=1)[0].casefold()):
        return f"{shown(name)} is a name that k3fleet keeps for itself"
    return None


def folder_name_fault(part: str) -> str | None:
    """Say why a folder or a revision may not have this name; None when it may."""
    fault = _part_fault(part)
    return f"{shown(part)} {fault}" if fault else None


def clashes(names: Iterable[str]) -> list[str]:
    """Find names that are one on some disks, and names that are a file and a folder."""
    found, known = [], dict[str, str]()
    listed = sorted(names)
    for name in listed:
        folded = name.casefold()
        if folded in known:
            found.append(f"{shown(known[folded])} and {shown(name)} differ only in capitals")
        known.setdefault(folded, name)
    for name in listed:
        parts = name.casefold().split("/")
        for length in range(1, len(parts)):
            above = "/".join(parts[:length])
            if above in known:
                found.append(f"{shown(known[above])} is a file, and the folder of {shown(name)}")
    return found


def missing_shards(names: Iterable[str]) -> list[str]:
    """List the shards that others say there are: `…-00003-of-00096.safetensors`."""
    present = set(names)
    missing = []
    groups: Mapping[tuple[str, str, str, int], None] = dict.fromkeys(
        (found["stem"], found["count"], found["end"], len(found["number"]))
        for name in sorted(present)
        if (found := _SHARD.fullmatch(name))
    )
    for stem, count, end, digits in groups:
        if int(count) > len(present) * 1000:  # a hostile name may say 999,999
            missing.append(f"{stem}-*-of-{count}{end}")
            continue
        wanted = (f"{stem}-{n:0{digits}}-of-{count}{end}" for n in range(1, int(count) + 1))
        missing += [name for name in wanted if name not in present]
    return missing


def shown(name: str) -> str:
    """Name a name in a message: quoted, in plain characters, cut."""
    return ascii(name if len(name) <= _SHOWN else name[: _SHOWN - 3] + "...")


def _part_fault(part: str) -> str | None:
    if part in ("", ".", ".."):
        return "leads out of its folder, or nowhere"
    if "\\" in part or "\0" in part:
        return "has a backslash or a NUL in it"
    if not part.isascii():
        return "has characters outside ASCII"
    if not _PART.fullmatch(part):
        return "has characters other than letters, digits and any of _ . + = @ , -"
    return None
