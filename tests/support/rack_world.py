"""A cluster in this process: nodes, replicas and routing behind the API that lightkube speaks.

Behind the requests stand what a cluster has: a controller that makes a replica's pods, a scheduler
that places one pod at a time on a free node, and frontends that know leaders that are Ready.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
from lightkube import Client
from lightkube.config.kubeconfig import Cluster as ClusterConfig
from lightkube.config.kubeconfig import Context, KubeConfig, User

from infra.rollout.cluster import Cluster

Object = dict[str, Any]
NAMESPACE, FLEET, REGION = "k3", "demo", "us-east"
PLACE = f"/namespaces/{NAMESPACE}/"
NODES = "/api/v1/nodes"
PODS = f"/api/v1{PLACE}pods"
SETS = f"/apis/leaderworkerset.x-k8s.io/v1{PLACE}leaderworkersets"
SLICES = f"/apis/discovery.k8s.io/v1{PLACE}endpointslices"
WORKERS = f"/apis/nvidia.com/v1alpha1{PLACE}dynamoworkermetadatas"
LEASES = f"/apis/coordination.k8s.io/v1{PLACE}leases"
MAPS = f"/api/v1{PLACE}configmaps"
ALL_PODS = "/api/v1/pods"
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


class KilledError(Exception):
    """The process that asks is gone."""


def node(name: str, rack: str | None, clique: str = "c1.0", **changes: Any) -> Object:
    """Describe a tray that is well."""
    labels = {
        "kubernetes.io/arch": "arm64",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.clique": clique,
        **({} if rack is None else {"k3fleet.io/rack": rack}),
        **changes.pop("labels", {}),
    }
    return {
        "metadata": {"name": name, "labels": {k: v for k, v in labels.items() if v is not None}},
        "spec": changes.pop("spec", {}),
        "status": {
            "allocatable": {"nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **changes,
        },
    }


def replica(name: str, rack: str, release: str) -> Object:
    """Describe a replica's object."""
    labels = {"k3fleet.io/rack": rack, "k3fleet.io/release": release, "k3fleet.io/replica": name}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"replicas": 1}}


@dataclass
class RackWorld:
    """What the API server has; `steps` counts writes, and the process dies at `dies_at`."""

    store: dict[str, Object] = field(default_factory=dict)
    steps: int = 0
    dies_at: int | None = None
    log: list[str] = field(default_factory=list)
    budget_says_no: int = 0  # evictions that are refused
    release: str = "r-1"  # of all replicas
    unknown: tuple[str, ...] = ()  # paths of kinds that the API server does not know
    after_write: Callable[[], None] = lambda: None
    silent: set[str] = field(default_factory=set)  # nodes whose kubelet is gone
    _uids: Any = field(default_factory=count)

    @cached_property
    def client(self) -> Client:
        """A client that speaks to this world and to nothing else."""
        config = KubeConfig(
            clusters={"c": ClusterConfig(server="http://world")},
            contexts={"x": Context(cluster="c", user="u")},
            users={"u": User()},
            current_context="x",
        )
        transport = httpx2.MockTransport(self.handle)
        return Client(config=config, namespace=NAMESPACE, transport=transport, trust_env=False)

    def add(self, path: str, item: Object) -> None:
        item = json.loads(json.dumps(item))
        item["metadata"].setdefault("uid", f"u{next(self._uids)}")
        item["metadata"].setdefault("resourceVersion", "1")
        self.store[f"{path}/{item['metadata']['name']}"] = item

    def all(self, path: str) -> list[Object]:
        return [item for key, item in sorted(self.store.items()) if key.rpartition("/")[0] == path]

    def get(self, path: str, name: str) -> Object:
        return self.store[f"{path}/{name}"]

    def fill(self, rack: str, nodes: int, replicas: int) -> None:
        """Bring up a rack with its replicas, and its region's namespace."""
        owner = {"k3fleet.io/fleet": FLEET, "k3fleet.io/region": REGION}
        self.add("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": owner}})
        for number in range(nodes):
            self.add(NODES, node(f"{rack}-n{number:02d}", rack))
        for slot in range(replicas):
            self.add(SETS, replica(f"{rack}-{slot}", rack, self.release))
        self.settle()

    def settle(self) -> None:
        """Let controller, scheduler and frontends do their work."""
        for item in self.all(SETS):
            self._group(item)
        for pod in self.all(PODS):
            if not pod["spec"]["nodeName"]:
                self._place(pod)
        for item in self.all(SETS):
            self._ready(item["metadata"]["name"])

    @property
    def serving(self) -> set[str]:
        """Replicas that a frontend would choose."""
        return {
            pod["metadata"]["labels"]["k3fleet.io/replica"]
            for pod in self.all(PODS)
            if _routed(pod) and _is_ready(pod)
        }

    def where(self, name: str) -> set[str]:
        """Nodes that a replica is on."""
        return {
            pod["spec"]["nodeName"]
            for pod in self.all(PODS)
            if pod["metadata"]["labels"]["k3fleet.io/replica"] == name and pod["spec"]["nodeName"]
        }

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request as an API server does."""
        path = unquote(request.url.path)
        if path in self.unknown:
            return _answer(404, {"message": "the server could not find the requested resource"})
        if request.method == "GET":
            return self._read(path, request.url.params.get("labelSelector"))
        self._maybe_die()
        answer = self._write(request.method, path, json.loads(request.content or b"{}"))
        self._maybe_die()
        self.settle()
        self.after_write()
        return answer

    def _maybe_die(self) -> None:
        if self.steps == self.dies_at:
            raise KilledError
        self.steps += 1

    def _read(self, path: str, selector: str | None) -> httpx2.Response:
        if path in self.store:
            return _answer(200, self.store[path])
        if path == SLICES:
            return _answer(200, {"items": [self._slice()]})
        if path == WORKERS:
            return _answer(200, {"items": self._workers()})
        if path in (NODES, PODS, SETS, MAPS, LEASES, ALL_PODS):
            source = PODS if path == ALL_PODS else path
            items = [item for item in self.all(source) if _selected(item, selector)]
            return _answer(200, {"items": items})
        return _answer(404, {"message": f"{path} not found", "code": 404})

    def _write(self, method: str, path: str, body: Object) -> httpx2.Response:
        if path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"))
        if method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        if path not in self.store:
            return _answer(404, {"message": f"{path} not found", "code": 404})
        if method == "DELETE":
            if body.get("gracePeriodSeconds") == 0 or "gracePeriodSeconds" not in body:
                self.log.append(f"remove {path.rpartition('/')[2]}")
            return _answer(200, self.store.pop(path))
        now = self.store[path]
        if method == "PUT":
            if body["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]:
                return _answer(409, {"message": "changed", "code": 409})
            self.store[path] = now = body
        else:
            self.log.append(f"{path.rpartition('/')[2]} {json.dumps(body, sort_keys=True)}")
            _merge(now, body)
        now["metadata"]["resourceVersion"] = str(int(now["metadata"]["resourceVersion"]) + 1)
        return _answer(200, now)

    def _create(self, path: str, body: Object) -> httpx2.Response:
        if path in self.store:
            return _answer(409, {"message": "exists", "code": 409})
        body["metadata"]["resourceVersion"] = "1"
        self.store[path] = body
        return _answer(201, body)

    def _evict(self, path: str) -> httpx2.Response:
        if self.budget_says_no:
            self.budget_says_no -= 1
            return _answer(429, {"message": "budget", "code": 429})
        if path not in self.store:
            return _answer(404, {"message": "gone", "code": 404})
        pod = self.store[path]
        self.log.append(f"evict {pod['metadata']['name']}")
        self._end(pod["metadata"]["labels"]["k3fleet.io/replica"])
        return _answer(201, {"metadata": {"name": pod["metadata"]["name"]}})

    def _end(self, name: str) -> None:
        """Take a whole group: a pod that is lost has its group made anew."""
        for suffix in ("-0", "-0-1"):
            pod = self.store.get(f"{PODS}/{name}{suffix}")
            if pod is not None and pod["spec"]["nodeName"] in self.silent:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            else:
                self.store.pop(f"{PODS}/{name}{suffix}", None)

    def fall_silent(self, name: str, *, gone: bool = False) -> None:
        """Let a node be lost: its pods stay as they are, and nobody ends them."""
        self.silent.add(name)
        if gone:
            del self.store[f"{NODES}/{name}"]
        else:
            self.get(NODES, name)["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        self.settle()

    def _group(self, item: Object) -> None:
        name = item["metadata"]["name"]
        if item["spec"]["replicas"] == 0:
            self._end(name)
            return
        for index, suffix in enumerate(("-0", "-0-1")):
            if f"{PODS}/{name}{suffix}" not in self.store:
                labels = {**item["metadata"]["labels"], INDEX: str(index)}
                if not index:
                    labels["k3fleet.io/routed"] = "true"
                made = {"metadata": {"name": f"{name}{suffix}", "labels": labels}}
                self.add(PODS, {**made, "spec": {"nodeName": "", "containers": []}})

    def _place(self, pod: Object) -> None:
        taken = {other["spec"]["nodeName"] for other in self.all(PODS)}
        rack = pod["metadata"]["labels"]["k3fleet.io/rack"]
        for item in self.all(NODES):
            name = item["metadata"]["name"]
            mine = item["metadata"]["labels"].get("k3fleet.io/rack") == rack
            if mine and name not in taken and not item["spec"].get("unschedulable"):
                pod["spec"]["nodeName"] = name
                return

    def _ready(self, name: str) -> None:
        pods = [self.store.get(f"{PODS}/{name}{suffix}") for suffix in ("-0", "-0-1")]
        whole = all(
            pod is not None
            and pod["spec"]["nodeName"]
            and pod["spec"]["nodeName"] not in self.silent
            for pod in pods
        )
        for pod in filter(None, pods):
            held = "True" if whole else "False"
            pod["status"] = {
                "phase": "Running" if whole else "Pending",
                "conditions": [{"type": "Ready", "status": held}],
            }

    def _slice(self) -> Object:
        ready = [pod for pod in self.all(PODS) if _routed(pod) and _is_ready(pod)]
        endpoints = [
            {
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": True},
                "targetRef": {"name": pod["metadata"]["name"]},
            }
            for pod in ready
        ]
        labels = {"kubernetes.io/service-name": "engines"}
        return {
            "metadata": {"name": "engines", "labels": labels},
            "addressType": "IPv4",
            "endpoints": endpoints,
        }

    def _workers(self) -> list[Object]:
        return [
            {
                "metadata": {"name": pod["metadata"]["name"]},
                "spec": {
                    "data": {
                        "model_cards": {"m": {}},
                        "endpoints": {"e": {"endpoint": "generate", "instance_id": "1"}},
                    }
                },
            }
            for pod in self.all(PODS)
            if _is_ready(pod) and pod["metadata"]["labels"].get(INDEX) == "0"
        ]


class WorldCluster(Cluster):
    """A cluster whose API server is a world of a test."""

    @cached_property
    def client(self) -> Client:
        return WORLDS[self.kubeconfig].client


WORLDS: dict[Path, RackWorld] = {}


def cluster_of(world: RackWorld, name: str = "world") -> WorldCluster:
    """Give the cluster of a world."""
    path = Path(f"/{name}-{id(world)}")
    WORLDS[path] = world
    return WorldCluster(region=REGION, kubeconfig=path, namespace=NAMESPACE)


def _answer(code: int, body: Mapping[str, Any]) -> httpx2.Response:
    if code >= httpx2.codes.BAD_REQUEST:
        body = {"kind": "Status", "status": "Failure", "code": code, **body}
    return httpx2.Response(code, json=body)


def _selected(item: Object, selector: str | None) -> bool:
    labels = item["metadata"].get("labels", {})
    for term in filter(None, (selector or "").split(",")):
        key, given, value = term.partition("=")
        if key not in labels or (given and labels[key] != value):
            return False
    return True


def _merge(item: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, dict):
            _merge(item.setdefault(key, {}), value)
        else:
            item[key] = value


def _routed(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"].get("k3fleet.io/routed") == "true")


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c == {"type": "Ready", "status": "True"} for c in conditions)
