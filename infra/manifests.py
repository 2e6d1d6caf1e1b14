"""Write rendered objects as files.

All or nothing: the files are made in a new folder beside the old one, which
they then replace, so that nobody ever reads half of two renderings. Same
objects, same bytes.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml

from fleet.errors import ConfigError, FleetError
from infra.render import KubeObject

MARKER = ".k3fleet-render"
_MARKER_TEXT = "This folder is replaced whole by `k3fleet render`. Do not edit.\n"

# The order in which `kubectl apply -f` meets the kinds; file names sort by it.
_ORDER = {
    "CustomResourceDefinition": 0,
    "Namespace": 0,
    "PriorityClass": 1,
    "ServiceAccount": 2,
    "ExternalSecret": 2,
    "Role": 3,
    "ClusterRole": 3,
    "RoleBinding": 4,
    "ClusterRoleBinding": 4,
    "ComputeDomain": 5,
    # The binding is what puts a policy into force.
    "ValidatingAdmissionPolicy": 6,
    "ValidatingAdmissionPolicyBinding": 7,
    "NetworkPolicy": 8,
    "Service": 10,
    "ConfigMap": 11,
    "PodDisruptionBudget": 12,
    "LeaderWorkerSet": 20,
    "DynamoGraphDeployment": 20,
    "DaemonSet": 30,
    "Deployment": 30,
    "HorizontalPodAutoscaler": 31,
    "PodMonitor": 40,
    "PrometheusRule": 41,
}
_LAST = 99


class _Dumper(yaml.CSafeDumper):
    """Writes text of several lines as a block, so that people can read it."""

    def ignore_aliases(self, data: object) -> bool:
        """Write equal parts out instead of pointing at each other."""
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def write_manifests(folders: Iterable[tuple[str, Iterable[KubeObject]]], out_dir: Path) -> int:
    """Write each (folder, objects) below `out_dir` and return the number of files.

    Raises ConfigError when `out_dir` cannot be such a folder or holds something that we did not
    write, and FleetError when the disk refuses.
    """
    out_dir = _resolved(out_dir)
    try:
        _check(out_dir)
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out_dir.parent, prefix=f".{out_dir.name}-") as scratch:
            made, old = Path(scratch, "new"), Path(scratch, "old")
            count = _fill(made, folders)
            _exchange(made, out_dir, old)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(
            f"{out_dir}: a part of this path is a file. Give the name of a folder."
        ) from error
    except OSError as error:
        fix = "Free space, or give a folder that you may write to."
        if error.errno == errno.EBUSY:
            fix = "It is a mount point, which cannot be replaced. Give a folder in it."
        raise FleetError(f"{out_dir}: cannot write: {error.strerror or error}. {fix}") from error
    return count


def file_name(item: KubeObject) -> str:
    """Name a file by kind and name, never by place, so that a new rack renames nothing."""
    kind = str(item["kind"])
    return f"{_ORDER.get(kind, _LAST):02d}-{kind.lower()}-{item['metadata']['name']}.yaml"


def manifest_text(item: KubeObject) -> str:
    """Write one object as YAML."""
    text: str = yaml.dump(item, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def _fill(made: Path, folders: Iterable[tuple[str, Iterable[KubeObject]]]) -> int:
    made.mkdir(mode=0o755)
    (made / MARKER).write_text(_MARKER_TEXT)
    count = 0
    for folder, objects in folders:
        target = made / folder
        target.mkdir(parents=True, exist_ok=True)
        for item in objects:
            (target / file_name(item)).write_text(manifest_text(item), encoding="utf-8")
            count += 1
    return count


def _exchange(made: Path, out_dir: Path, old: Path) -> None:
    """Put the new folder in the place of the old one, and the old one back when interrupted."""
    if not out_dir.exists():
        made.rename(out_dir)
        return
    out_dir.rename(old)
    try:
        made.rename(out_dir)
    except BaseException:
        old.rename(out_dir)
        raise


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # Python 3.13 made one of the other
        raise ConfigError(
            f"{path}: is a link that leads to itself. Give the name of a folder."
        ) from error


def _check(out_dir: Path) -> None:
    if not out_dir.exists():
        return
    if not out_dir.is_dir():
        raise ConfigError(f"{out_dir}: is a file. Give the name of a folder.")
    if any(out_dir.iterdir()) and not (out_dir / MARKER).is_file():
        raise ConfigError(
            f"{out_dir}: is not empty and was not written by `k3fleet render`. "
            "Give a new folder, or empty this one yourself."
        )
