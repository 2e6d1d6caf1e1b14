"""Write kubeconfig files of a lab's API servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def admin_kubeconfig(path: Path, *, url: str, pki: Path) -> None:
    """Write the administrator's kubeconfig, which names the files of its certificate."""
    user = {
        "client-certificate": str(pki / "admin.crt"),
        "client-key": str(pki / "admin.key"),
    }
    cluster = {"server": url, "certificate-authority": str(pki / "ca.crt")}
    _write(path, cluster, user, "default")


def write_kubeconfig(path: Path, admin: Path, *, token: str, namespace: str) -> None:
    """Write a kubeconfig for a bearer token, against the cluster of the admin's file."""
    cluster = yaml.safe_load(admin.read_text())["clusters"][0]["cluster"]
    _write(path, cluster, {"token": token}, namespace)


def _write(path: Path, cluster: dict[str, Any], user: dict[str, str], namespace: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [
            {"name": "lab", "context": {"cluster": "lab", "user": "lab", "namespace": namespace}}
        ],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
