"""Bring the load generator of a region into its cluster, after showing what that changes.

The objects are those that `pulumi up` of the serving layer makes too; here only they are applied,
server-side and under a field manager of their own, so that whoever has no stack of the region can
still measure it. What another manager holds is never taken from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import httpx2
from lightkube import Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.core.exceptions import ApiError
from lightkube.core.exceptions import ConfigError as KubeConfigError
from lightkube.resources.core_v1 import Namespace
from yaml import YAMLError

from fleet.errors import ApplyError, ClusterError, ConfigError
from fleet.load import Fleet
from infra.kubeconfig import DENIED
from infra.load_generator import ACCOUNT
from infra.options import Layer
from infra.render import KubeObject, render_region

FIELD_MANAGER = "k3fleet-loadtest"
LAYERS: tuple[Layer, ...] = ("platform", "serving")
_BY_THE_SERVER = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")

# What lightkube raises for a file that lacks something: it checks little by itself.
_UNUSABLE = (KubeConfigError, OSError, ValueError, KeyError, TypeError, AssertionError, YAMLError)

Verb = Literal["create", "change", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What applying an object does."""

    verb: Verb
    item: KubeObject

    @property
    def what(self) -> str:
        """Name the object."""
        return f"{self.item['kind']} {self.item['metadata']['name']}"


def region_client(kubeconfig: Path, context: str | None, namespace: str) -> Client:
    """Make the client of a region's API server; raises ConfigError for an unusable file."""
    try:
        config = KubeConfig.from_file(kubeconfig)
        chosen = config.get(context_name=context) if context else config
        return Client(config=chosen, namespace=namespace, trust_env=False)
    except _UNUSABLE as error:
        raise ConfigError(
            f"{kubeconfig}: is no usable kubeconfig ({type(error).__name__}). "
            "Give another with --kubeconfig FILE, or another --context."
        ) from error


def generator_objects(fleet: Fleet, region: str) -> list[KubeObject]:
    """Render the load generator of a region; raises ConfigError where the fleet asks for none."""
    if fleet.spec.loadtest is None:
        raise ConfigError(
            f"{fleet.path}: loadtest: is not set, so there is nothing to deploy. "
            "Set its image and tokenizer_dir; see docs/fleet-file.md."
        )
    known = [entry.name for entry in fleet.spec.regions]
    if region not in known:
        raise ConfigError(
            f"--region {region}: is no region of {fleet.path}. Known: {', '.join(known)}."
        )
    rendered = (item for layer in LAYERS for item in render_region(fleet, region, layer))
    return [item for item in rendered if _is_generators(item)]


def changes_of(client: Client, objects: Sequence[KubeObject], namespace: str) -> list[Change]:
    """Ask the API server, without changing anything, what applying objects would do."""
    with asked(f"namespace {namespace}"):
        try:
            client.get(Namespace, namespace)
        except ApiError as error:
            if error.status.code != HTTPStatus.NOT_FOUND:
                raise
            raise ConfigError(
                f"namespace {namespace}: is not in this cluster. "
                "Bring the region up first, or give the right --kubeconfig and --context."
            ) from error
    return [Change(verb=_verb(client, item), item=item) for item in objects]


def apply_changes(client: Client, changes: Sequence[Change]) -> int:
    """Apply what is not as it should be; return how many objects that were."""
    wanted = [change for change in changes if change.verb != "keep"]
    for change in wanted:
        with asked(change.what):
            client.apply(from_dict(change.item), field_manager=FIELD_MANAGER)
    return len(wanted)


@contextmanager
def asked(what: str) -> Iterator[None]:
    """Turn what an API server refuses into an error that says what to do."""
    try:
        yield
    except ApiError as error:
        fix = "See the message."
        if error.status.code == HTTPStatus.CONFLICT:
            fix = "It belongs to a stack: bring the change out with pulumi up of the serving layer."
        kind = ClusterError if error.response.status_code in DENIED else ApplyError
        raise kind(f"{what}: {_one_line(error)} {fix}") from error
    except httpx2.HTTPError as error:
        raise ClusterError(
            f"{what}: the API server does not answer ({type(error).__name__}). "
            "Check --kubeconfig and the network."
        ) from error


def _is_generators(item: KubeObject) -> bool:
    name = str(item["metadata"]["name"])
    return name == ACCOUNT or name.startswith(f"{ACCOUNT}-")


def _verb(client: Client, item: KubeObject) -> Verb:
    resource: Any = from_dict(item)
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
    with asked(f"{item['kind']} {name}"):
        try:
            live = client.get(type(resource), name, namespace=namespace)
        except ApiError as error:
            if error.status.code != HTTPStatus.NOT_FOUND:
                raise
            return "create"
        made = client.apply(resource, field_manager=FIELD_MANAGER, dry_run=True)
    return "keep" if _comparable(live) == _comparable(made) else "change"


def _comparable(resource: Any) -> Mapping[str, Any]:
    """Leave out what the server writes by itself."""
    data: dict[str, Any] = resource.to_dict()
    data.pop("status", None)
    metadata = data.get("metadata", {})
    data["metadata"] = {k: v for k, v in metadata.items() if k not in _BY_THE_SERVER}
    return data


def _one_line(error: ApiError) -> str:
    text = " ".join(str(error.status.message or error).split())[:300]
    return text if text.endswith(".") else f"{text}."
