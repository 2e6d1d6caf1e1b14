"""Say which folders a file may name: their characters, and that they are nobody else's."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from fleet.schema import found_text

MAX_CHARS = 512  # names of files are added to it, and Linux takes 4,096
# Of a node, and of an image alike. What lies above one, such as /var, holds it too.
_SYSTEM = tuple(
    PurePosixPath(name)
    for name in (
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin"),
        *("/sys", "/usr", "/var/run", "/var/log", "/var/spool", "/var/lib/kubelet"),
        *("/var/lib/containerd", "/var/lib/containers", "/var/lib/cni", "/var/lib/docker"),
        *("/var/lib/dockershim", "/var/lib/etcd", "/var/lib/nfs", "/var/lib/rancher"),
    )
)
# What a shell, a mount and a `$(NAME)` of Kubernetes leave as it is.
_PATH = re.compile(r"/[A-Za-z0-9._@+/-]*")
_EXAMPLE = "Write it from the root, for example /mnt/k3fleet"


def folder_fault(text: str) -> tuple[str, str] | None:
    """Say what is wrong with the path of a folder, and what to do."""
    path = _normal(text)
    if path is None or path == PurePosixPath("/") or ".." in path.parts:
        return f"{found_text(text)} is no path of a folder", _EXAMPLE
    if len(text) > MAX_CHARS:
        return f"{found_text(text)} has {len(text)} characters", f"Give at most {MAX_CHARS}"
    if not _PATH.fullmatch(text):
        what = f"{found_text(text)} has characters that a path here may not have"
        return what, "Use letters, digits and any of . _ @ + - /"
    return None


def host_folder_fault(text: str) -> tuple[str, str] | None:
    """Say what is wrong with a folder of a node, into which pods may write."""
    if fault := folder_fault(text):
        return fault
    path = _normal(text)
    for system in _SYSTEM:
        if path and (path.is_relative_to(system) or system.is_relative_to(path)):
            what = f"{found_text(text)} belongs to the node's system ({system})"
            return what, "Give a folder of its own, for example /mnt/k3fleet"
    return None


def _normal(text: str) -> PurePosixPath | None:
    """Read a path from the root; `//etc` is `/etc`, which pathlib tells apart."""
    return PurePosixPath("/" + text.lstrip("/")) if text.startswith("/") else None
