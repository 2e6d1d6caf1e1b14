"""Look into a region's cluster before anything is changed: is it there, and is it the right one?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError, LoadResourceError
from lightkube.core.resource_registry import resource_registry
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Namespace

from fleet.errors import ClusterError
from infra.kubeconfig import NO_ANSWER, open_client, told
from infra.provision.pending import Pending
from infra.rollout.cluster import FLEET_LABEL, REGION_LABEL

IDENTITY = "kube-system"  # the namespace whose uid is the cluster's identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """To whom a namespace belongs, by its labels; empty: nobody."""

    fleet: str
    region: str


@dataclass(frozen=True, kw_only=True)
class ClusterLook:
    """One cluster, through one context of a kubeconfig."""

    region: str
    kubeconfig: Path
    context: str | None

    def uid(self) -> str:
        """Read the cluster's identity; raise ClusterError where it does not answer."""
        with self._asking():
            found = self._client.get(Namespace, IDENTITY)
        return str(found.metadata.uid if found.metadata else "")

    def owner(self, namespace: str) -> Owner | None:
        """Read to whom a namespace belongs; None where there is none."""
        with self._asking():
            try:
                found = self._client.get(Namespace, namespace)
            except ApiError as error:
                if error.status.code == HTTPStatus.NOT_FOUND:
                    return None
                raise
        labels = (found.metadata.labels if found.metadata else None) or {}
        return Owner(fleet=labels.get(FLEET_LABEL, ""), region=labels.get(REGION_LABEL, ""))

    def has(self, item: Pending) -> bool:
        """Say whether an object is there."""
        with self._asking():
            kind = self._kind(item)
            if kind is None:
                return False
            place = {"namespace": item.namespace} if item.namespace else {}
            try:
                self._client.get(kind, item.name, **place)
            except ApiError as error:
                if error.status.code == HTTPStatus.NOT_FOUND:
                    return False
                raise
        return True

    def _kind(self, item: Pending) -> Any:
        try:
            return resource_registry.load(item.api_version, item.kind)
        except LoadResourceError:
            pass
        group, _, version = item.api_version.rpartition("/")
        for defined in self._client.list(CustomResourceDefinition):
            spec = defined.spec
            if spec and (spec.group, spec.names.kind) == (group, item.kind):
                make = create_namespaced_resource if item.namespace else create_global_resource
                return make(group, version, item.kind, spec.names.plural)
        return None

    @cached_property
    def _client(self) -> Client:
        return open_client(self.region, self.kubeconfig, self.context)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn what an API server or the way to it did into an error of ours."""
        try:
            yield
        except (httpx2.HTTPError, OSError) as error:
            refused = isinstance(error, ApiError) and error.response.is_client_error
            raise self._fault("refused" if refused else "does not answer", error) from error
        except NO_ANSWER as error:
            raise self._fault("is none, or nobody can log in to it", error) from error

    def _fault(self, what: str, error: Exception) -> ClusterError:
        return ClusterError(
            f"{self.region}: its API server {what}: {told(error)}. See that the kubeconfig "
            f"{self.kubeconfig} leads to it, then run again: nothing was changed."
        )


def require_same(region: str, uid: str, deployed: str | None) -> None:
    """Raise ClusterError unless a cluster is the one that the stack was applied to."""
    if deployed and uid != deployed:
        raise ClusterError(
            f"{region}: the kubeconfig leads to cluster {uid}, and its stack is of cluster "
            f"{deployed}. Name that one's kubeconfig or context; nothing was touched. To move the "
            "region on purpose: add it under a new name, bring that up, then destroy this one."
        )


def require_ours(fleet: str, region: str, namespace: str, owner: Owner | None) -> None:
    """Raise ClusterError when a namespace belongs to another fleet or region."""
    if owner is None or (owner.fleet, owner.region) in ((fleet, region), ("", "")):
        return
    raise ClusterError(
        f"{region}: namespace {namespace} of this cluster belongs to region {owner.region or '?'} "
        f"of fleet {owner.fleet or '?'}, not to {fleet}. Check the region's `context`; two regions "
        "of one cluster need a namespace each. Nothing was touched."
    )
