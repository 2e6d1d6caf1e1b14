"""See, and where a rollout has to, touch the engines of one region in its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
from lightkube import Client
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
from lightkube.resources.core_v1 import Namespace, Node, Pod
from lightkube.resources.discovery_v1 import EndpointSlice

from fleet.errors import ApplyError, ClusterError
from fleet.traffic_shift import HEARD_S
from infra.frontend import PORT as FRONTEND_PORT
from infra.kubeconfig import DENIED, NO_ANSWER, REQUEST_S, open_client, read_config, told
from infra.rollout.checks import EnginePod
from infra.rollout.endpoint import Endpoint, proxied

ROUTED_LABEL = "k3fleet.io/routed"
REPLICA_LABEL = "k3fleet.io/replica"
RACK_LABEL = "k3fleet.io/rack"
RELEASE_LABEL = "k3fleet.io/release"
SET_LABEL = "k3fleet.io/set"
REGION_LABEL = "k3fleet.io/region"
FLEET_LABEL = "k3fleet.io/fleet"
WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
PARKED = "k3fleet.io/parked"  # annotation of a replica's object that was set to no pods
SERVICE = "engines"
SERVING_ENDPOINT = "generate"

LeaderWorkerSet = create_namespaced_resource(
    "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"
)
WorkerMetadata = create_namespaced_resource(
    "nvidia.com", "v1alpha1", "DynamoWorkerMetadata", "dynamoworkermetadatas"
)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The API server of a region; every failed request is an ApplyError."""

    region: str
    kubeconfig: Path
    namespace: str
    # How this machine gets to a pod, by its address; None: through the API server.
    reach: Callable[[str], str] | None = None
    context: str | None = None  # of the kubeconfig; None: its current one
    go_on: str = "k3fleet rollout resume"  # what to type once the API server is well again
    heard_s: float = HEARD_S  # until all pods see a ConfigMap that has changed

    @cached_property
    def client(self) -> Client:
        """Client of the API server; no request of it waits for ever."""
        return open_client(self.region, self.kubeconfig, self.context, self.namespace)

    @cached_property
    def _config(self) -> SingleConfig:
        return read_config(self.region, self.kubeconfig, self.context)

    @cached_property
    def _http(self) -> httpx2.Client:
        """Client for what pods serve; one of the API server where they are behind it."""
        if self.reach is not None:
            return httpx2.Client(trust_env=False)
        limits = client_adapter.ConnectionParams(timeout=httpx2.Timeout(REQUEST_S), trust_env=False)
        return client_adapter.Client(self._config, limits)

    def endpoint(self, pod: str, address: str, port: int) -> Endpoint:
        """Give the way to a pod's port."""
        if self.reach is not None:
            url = f"http://{self.reach(address)}:{port}"
        else:
            url = proxied(self._config.cluster.server, self.namespace, pod, port)
        return Endpoint(pod, url, self._http)

    def may_ask_pods(self) -> bool:
        """Say whether whoever this is may send requests to pods through the API server."""
        asked = ResourceAttributes(
            namespace=self.namespace, verb="create", resource="pods", subresource="proxy"
        )
        spec = SelfSubjectAccessReviewSpec(resourceAttributes=asked)
        with self.api():
            answer = self.client.create(SelfSubjectAccessReview(spec=spec))
        return bool(answer.status and answer.status.allowed)

    def owner(self) -> tuple[str, str]:
        """Give fleet and region to which the namespace says it belongs."""
        with self.api():
            found = self.client.get(Namespace, self.namespace)
        labels = (found.metadata.labels if found.metadata else None) or {}
        return labels.get(FLEET_LABEL, ""), labels.get(REGION_LABEL, "")

    def engines(self) -> tuple[EnginePod, ...]:
        """List the pods of all replicas."""
        with self.api():
            pods = list(self.client.list(Pod, labels={REPLICA_LABEL: None}))
        return tuple(engine_pod(_plain(pod)) for pod in pods)

    def frontends(self, set_: str = "") -> tuple[Endpoint, ...]:
        """Give the ways to the frontends that are Ready: of a set, or of all."""
        labels: dict[str, Any] = {"app.kubernetes.io/name": "frontend"}
        labels |= {SET_LABEL: set_} if set_ else {}
        with self.api():
            pods = [_plain(pod) for pod in self.client.list(Pod, labels=labels)]
        found = [
            self.endpoint(p["metadata"]["name"], p["status"]["podIP"], FRONTEND_PORT)
            for p in pods
            if _ready(p)
        ]
        return tuple(sorted(found, key=lambda at: at.url))

    def in_routing(self) -> frozenset[str]:
        """Give the pods that the engines' Service leads to."""
        with self.api():
            slices = [
                _plain(item)
                for item in self.client.list(
                    EndpointSlice, labels={"kubernetes.io/service-name": SERVICE}
                )
            ]
        return frozenset(
            str(endpoint["targetRef"]["name"])
            for item in slices
            for endpoint in item.get("endpoints") or ()
            if endpoint.get("conditions", {}).get("ready") and "targetRef" in endpoint
        )

    def workers(self) -> Mapping[str, str]:
        """Map pods to the id under which their worker serves the model."""
        with self.api():
            items = [_plain(item) for item in self.client.list(WorkerMetadata)]
        found = {}
        for item in items:
            data = _data(item)
            for worker in worker_ids(data) if data.get("model_cards") else ():
                found[str(item["metadata"]["name"])] = worker
        return found

    def cards(self) -> Mapping[str, Mapping[str, Any]]:
        """Map pods to the model card that they have registered."""
        with self.api():
            items = [_plain(item) for item in self.client.list(WorkerMetadata)]
        return {
            str(item["metadata"]["name"]): card for item in items for card in _cards(_data(item))
        }

    def node_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Read the labels of the racks' nodes."""
        with self.api():
            nodes = [_plain(node) for node in self.client.list(Node, labels={RACK_LABEL: None})]
        return {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}

    def workloads(self) -> Mapping[str, dict[str, Any]]:
        """Read the objects of all replicas, by name."""
        with self.api():
            items = [_plain(item) for item in self.client.list(LeaderWorkerSet)]
        return {str(item["metadata"]["name"]): item for item in items}

    def deployments(self) -> Mapping[str, dict[str, Any]]:
        """Read the Deployments of the namespace, by name."""
        with self.api():
            items = [_plain(item) for item in self.client.list(Deployment)]
        return {str(item["metadata"]["name"]): item for item in items}

    def parked(self) -> frozenset[str]:
        """Name the replicas that were set to no pods, because their rack lacks nodes."""
        return frozenset(
            name
            for name, item in self.workloads().items()
            if PARKED in (item["metadata"].get("annotations") or {})
        )

    def route(self, pod: EnginePod, *, on: bool) -> None:
        """Put a leader into routing or take it out; a pod that is gone needs neither."""
        patch = {"metadata": {"labels": {ROUTED_LABEL: "true" if on else None}}}
        with self.api():
            try:
                self.client.patch(Pod, pod.name, patch)
            except ApiError as error:
                if error.status.code != HTTPStatus.NOT_FOUND:
                    raise

    @contextmanager
    def api(self) -> Iterator[None]:
        """Turn what an API server or the way to it did into an ApplyError."""
        try:
            yield
        except (httpx2.HTTPError, OSError, *NO_ANSWER) as error:
            raise _kind(error)(
                f"{self.region}: its API server did not do what was asked: {told(error)}. "
                f"See that it answers, then `{self.go_on}`."
            ) from error


class AwayError(ClusterError, ApplyError):
    """An API server does not answer at the moment; what was asked may be asked again."""


class DeniedError(ClusterError, ApplyError):
    """An API server does not let us in, or not do this."""


def _kind(error: Exception) -> type[ApplyError]:
    if not isinstance(error, ApiError) or not error.response.is_client_error:
        return AwayError
    return DeniedError if error.response.status_code in DENIED else ApplyError


def worker_ids(data: Mapping[str, Any]) -> frozenset[str]:
    """Collect the ids under which a DynamoWorkerMetadata's worker serves the model."""
    # Null, and not left out, once a worker has let go of all of them.
    return frozenset(
        str(endpoint["instance_id"])
        for endpoint in _mappings(data.get("endpoints"))
        if endpoint.get("endpoint") == SERVING_ENDPOINT and "instance_id" in endpoint
    )


def _data(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what a worker has written, whatever its version writes: else nobody could turn it."""
    data = (item.get("spec") or {}).get("data")
    return data if isinstance(data, Mapping) else {}


def _cards(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for item in _mappings(data.get("model_cards")):
        if item.get("endpoint", SERVING_ENDPOINT) == SERVING_ENDPOINT:
            yield from _mappings({"": item.get("card_json", item)})


def _mappings(found: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(found, Mapping):
        yield from (item for item in found.values() if isinstance(item, Mapping))


def engine_pod(raw: Mapping[str, Any]) -> EnginePod:
    """Reduce an API object to what a rollout looks at."""
    meta = raw["metadata"]
    labels = meta["labels"]
    status = raw.get("status", {})
    return EnginePod(
        name=meta["name"],
        uid=meta["uid"],
        replica=labels[REPLICA_LABEL],
        rack=labels.get(RACK_LABEL, ""),
        release=labels.get(RELEASE_LABEL, ""),
        leader=labels.get(WORKER_INDEX_LABEL) == "0",
        phase=status.get("phase", "Pending"),
        ready=_ready(raw),
        deleting="deletionTimestamp" in meta,
        routed=labels.get(ROUTED_LABEL) == "true",
        address=status.get("podIP"),
        node=raw.get("spec", {}).get("nodeName", ""),
        set=labels.get(SET_LABEL, ""),
    )


def _ready(raw: Mapping[str, Any]) -> bool:
    conditions = {c["type"]: c["status"] for c in raw.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in raw["metadata"]


def _plain(item: object) -> dict[str, Any]:
    data: dict[str, Any] = item.to_dict()  # type: ignore[attr-defined]
    return data
