"""Keep small objects of ours in a region's cluster; nobody overwrites what he has not read."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, Protocol

from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

from infra.rollout.cluster import Cluster

Kind = Literal["Lease", "ConfigMap"]
Object = Mapping[str, Any]

_KINDS: Mapping[Kind, Any] = {
    "Lease": create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases"),
    "ConfigMap": create_namespaced_resource("", "v1", "ConfigMap", "configmaps"),
}


class ChangedError(Exception):
    """Somebody else made or changed the object since it was read; nothing was written."""


class Objects(Protocol):
    """Where the objects of a region are; a server that does not answer is an ApplyError."""

    @property
    def region(self) -> str: ...

    def get(self, kind: Kind, name: str) -> Object | None:
        """Read an object; None where there is none."""
        ...

    def list(self, kind: Kind, label: str) -> list[Object]:
        """Read all objects that have a label."""
        ...

    def write(self, kind: Kind, item: Object) -> Object:
        """Make an object, or replace the version that it names; give it as it is now."""
        ...

    def merge(self, kind: Kind, name: str, patch: Object) -> None:
        """Change some keys, whatever the others are."""
        ...

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object, or find it gone."""
        ...


class ClusterObjects:
    """The objects in the API server of a region."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def region(self) -> str:
        """Name of the region."""
        return self._cluster.region

    def get(self, kind: Kind, name: str) -> Object | None:
        """Read an object."""
        with self._cluster.api():
            try:
                return _plain(self._cluster.client.get(_KINDS[kind], name))
            except ApiError as error:
                if error.status.code == HTTPStatus.NOT_FOUND:
                    return None
                raise

    def list(self, kind: Kind, label: str) -> list[Object]:
        """Read all objects that have a label."""
        with self._cluster.api():
            found = self._cluster.client.list(_KINDS[kind], labels={label: None})
            return [_plain(item) for item in found]

    def write(self, kind: Kind, item: Object) -> Object:
        """Make an object, or replace the version that it names."""
        client, typed = self._cluster.client, _KINDS[kind](item)
        new = "resourceVersion" not in item["metadata"]
        with self._cluster.api():
            try:
                return _plain(client.create(typed) if new else client.replace(typed))
            except ApiError as error:
                if error.status.code in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                    raise ChangedError(item["metadata"]["name"]) from error
                raise

    def merge(self, kind: Kind, name: str, patch: Object) -> None:
        """Change some keys, whatever the others are."""
        with self._cluster.api():
            self._cluster.client.patch(_KINDS[kind], name, dict(patch), patch_type=PatchType.MERGE)

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object, or find it gone."""
        with self._cluster.api():
            try:
                self._cluster.client.delete(_KINDS[kind], name)
            except ApiError as error:
                if error.status.code != HTTPStatus.NOT_FOUND:
                    raise


def _plain(item: Any) -> Object:
    data: Object = item.to_dict()
    return data
