"""Say which ConfigMaps and Secrets a pod mounts, and write them as a kubelet does.

A kubelet never changes a mounted file: it writes all files of a volume into a new folder and turns
one link, `..data`, to it. So readers see the old set or the new one, and who watches the volume
(Envoy) hears of one move. A file that is mounted by `subPath` is a copy from the start of its
container, and stays as it is.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab.pods import PodView

Kind = Literal["ConfigMap", "Secret"]
Files = Mapping[str, bytes]

DATA, DRAFT = "..data", "..data_tmp"
# Keys of a volume, and there the name of what it shows.
_SOURCES: Mapping[str, tuple[Kind, str]] = {
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A place in a container's file system, and what of this machine is seen there."""

    path: Path
    source: Path
    copied: bool  # when the container starts, and left alone then

    def appear(self) -> None:
        """Be there for a container that is about to start."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.copied:
            shutil.copyfile(self.source, self.path)
            return
        self.source.mkdir(parents=True, exist_ok=True)
        if not self.path.is_symlink():
            self.path.symlink_to(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A ConfigMap or Secret that is mounted, and the folder that shows it."""

    kind: Kind
    name: str
    folder: Path
    optional: bool = False  # without it the folder is empty, and the pod starts all the same
    items: tuple[tuple[str, str], ...] = ()  # (key, path) that are shown; none: all keys


def volumes_of(pod: PodView, folders: Mapping[str, Path]) -> tuple[Volume, ...]:
    """Find what a pod mounts; `folders`: of its volumes, by their names."""
    return tuple(
        Volume(
            kind=kind,
            name=volume[source][name],
            folder=folders[volume["name"]],
            optional=volume[source].get("optional", False),
            items=tuple((item["key"], item["path"]) for item in volume[source].get("items", ())),
        )
        for volume in pod.spec.get("volumes", ())
        for source, (kind, name) in _SOURCES.items()
        if source in volume
    )


def files_of(volume: Volume, found: Mapping[str, Any] | None) -> Files | None:
    """Give the files that a volume shows of an object; None where the pod has to wait for it."""
    if found is None:
        return {} if volume.optional else None
    binary = found.get("data" if volume.kind == "Secret" else "binaryData") or {}
    files = {key: base64.b64decode(text) for key, text in binary.items()}
    if volume.kind == "ConfigMap":
        files |= {key: text.encode() for key, text in (found.get("data") or {}).items()}
    if not volume.items:
        return files
    if not volume.optional and any(key not in files for key, _ in volume.items):
        return None
    return {path: files[key] for key, path in volume.items if key in files}


def show(folder: Path, files: Files) -> bool:
    """Make a folder show these files and no others, all at one moment; tell if it was needed."""
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / DATA
    old = link.resolve() if link.is_symlink() else None
    if old is not None and _read(old) == files:
        return False
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    for name, data in files.items():
        path = new / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # it may be a Secret
        path.write_bytes(data)
    draft = folder / DRAFT
    draft.unlink(missing_ok=True)
    draft.symlink_to(new.name)
    draft.replace(link)
    _link(folder, {name.split("/")[0] for name in files})
    if old is not None:
        shutil.rmtree(old)
    return True


def _read(folder: Path) -> Files:
    paths = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _link(folder: Path, names: set[str]) -> None:
    """Show names by way of `..data`, and no others."""
    there = {path.name for path in folder.iterdir() if not path.name.startswith("..")}
    for name in names - there:
        (folder / name).symlink_to(Path(DATA, name))
    for name in there - names:
        (folder / name).unlink()
