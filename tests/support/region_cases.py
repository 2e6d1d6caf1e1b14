"""The regions that are given to a real API server: every preset, on each backend that takes it.

All that a fleet file can turn on is on; what excludes each other comes as further cases.
"""

from __future__ import annotations

import copy
import functools
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleet.load import load_fleet, preset_names
from fleet.spec import Backend
from infra.options import Layer, Options
from infra.render import KubeObject, render_region

RELEASES = Path(__file__).parents[1] / "cases" / "apply"
LAYERS: tuple[Layer, ...] = ("platform", "serving")
BACKENDS: tuple[Backend, ...] = ("lws", "dgd")
REPLICA_KIND: Mapping[Backend, str] = {
    "lws": "LeaderWorkerSet",
    "dgd": "DynamoGraphDeployment",
}
RACK = "use1-r01"
OTHER_RACK = "use1-r09"

# Presets that one backend only takes, under the release that completes them.
_COMPLETED: Mapping[str, tuple[str, tuple[Backend, ...]]] = {
    "trtllm-tep8": (str(RELEASES / "trtllm.yaml"), ("dgd",))
}
_IMAGE = "registry.example/any@sha256:" + "0" * 64
_EVERYTHING: Mapping[str, Any] = {
    "secrets": {
        "image_pull": "registry",
        "hf_token": "hub",
        "gateway_keys": "keys",
        "loadtest_key": "load-key",
        "external_store": "vault",
    },
    "weights_stage": {"image": _IMAGE},
    "node_report": {"image": _IMAGE, "runtime_class": "nvidia"},
    "kernel_cache": {"path": "/mnt/k3fleet/kernels"},
    "loadtest": {"image": _IMAGE, "tokenizer_dir": "/opt/kimi", "results_claim": "load"},
    "router": {"policy": {"policy_classes": []}},
    "gateway": {"replicas": 2},
}
_CLAIMS: Mapping[str, Any] = {**_EVERYTHING, "kernel_cache": {"claim": "kernels"}}
# Labels of Kueue and KAI are only read by their controllers, so both can be there.
_QUEUES: Mapping[Backend, Mapping[str, str]] = {
    "lws": {"gang": "kai", "queue": "team", "kueue_queue": "k3"},
    "dgd": {"gang": "kai", "queue": "team"},
}


@dataclass(frozen=True, kw_only=True)
class RegionCase:
    """A fleet of one region and one rack, and how it is rendered."""

    name: str
    backend: Backend
    release: str
    hardware: str = "gb300-nvl72"
    namespace: str | None = None  # None: shared by all with these policies
    region: str = "us-east"
    rack: str = RACK
    fleet: Mapping[str, Any] = field(default_factory=dict)
    claim: str | None = None  # where weights lie; then also without the DRA driver

    def __str__(self) -> str:
        """Name the case in pytest's output."""
        return f"{self.backend}-{self.name}"

    @property
    def place(self) -> str:
        """The namespace; what one release may run, its policies let all of its size run."""
        return self.namespace or f"{self.backend}-{self.hardware}"

    def objects(self, *layers: Layer) -> list[KubeObject]:
        """Render the layers, in the order in which they are made."""
        rendered = _rendered(self._text, self.region, self.claim)
        return [copy.deepcopy(item) for layer in layers or LAYERS for item in rendered[layer]]

    @property
    def _text(self) -> str:
        ends_at = "2027-01-31T11:30:00Z"
        rack = {"id": self.rack, "replicas": 3, "capacity_ends_at": ends_at}
        return yaml.safe_dump(
            {
                "apiVersion": "k3fleet/v1",
                "name": "demo",
                "release": self.release,
                "hardware": self.hardware,
                "backend": self.backend,
                "namespace": self.place,
                "regions": [{"name": self.region, "racks": [rack]}],
                **self.fleet,
            }
        )


@functools.lru_cache(maxsize=128)
def _rendered(text: str, region: str, claim: str | None) -> dict[Layer, list[KubeObject]]:
    """Render a fleet file; several API servers get the same objects."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fleet.yaml")
        path.write_text(text, encoding="utf-8")
        fleet = load_fleet(path)
    options = Options(weights_claim=claim, dra=claim is None)
    return {layer: render_region(fleet, region, layer, options) for layer in LAYERS}


def everything(backend: Backend, **changes: Any) -> RegionCase:
    """Give a region with everything turned on, by default of a preset that both backends take."""
    fleet = {**_EVERYTHING, "scheduling": _QUEUES[backend]}
    asked = {"name": "everything", "release": "vllm-tp8-dcp8", "fleet": fleet, **changes}
    return RegionCase(backend=backend, **asked)


def preset_cases() -> list[RegionCase]:
    """List every preset on each backend that takes it."""
    return list(_preset_cases())


def _preset_cases() -> Iterator[RegionCase]:
    for preset in preset_names("release"):
        release, backends = _COMPLETED.get(preset, (preset, BACKENDS))
        hardware = "gb200-nvl72" if preset.endswith("gb200") else "gb300-nvl72"
        for backend in backends:
            yield everything(backend, name=preset, release=release, hardware=hardware)


def variants() -> list[RegionCase]:
    """List what no region with everything turned on has."""
    volcano = {**_EVERYTHING, "scheduling": {"gang": "volcano", "queue": "team"}}
    house = {**_EVERYTHING, "scheduling": _QUEUES["lws"]}
    release = str(RELEASES / "house.yaml")
    return [
        everything("lws", name="volcano", fleet=volcano),
        everything("lws", name="house", release=release, fleet=house),
        *(everything(backend, name="plain", fleet={"monitoring": "none"}) for backend in BACKENDS),
        *(
            everything(backend, name="claim", claim="weights", fleet=_CLAIMS)
            for backend in BACKENDS
        ),
    ]


def pods_of(item: KubeObject) -> list[KubeObject]:
    """Make the pods that somebody will make of an object's templates."""
    metadata = item["metadata"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template.get("metadata", {}),
                "name": f"{metadata['name']}-{number}",
                "namespace": metadata["namespace"],
            },
            "spec": template["spec"],
        }
        for number, template in enumerate(_templates(item))
    ]


def _templates(item: KubeObject) -> list[KubeObject]:
    match item["kind"]:
        case "LeaderWorkerSet":
            group = item["spec"]["leaderWorkerTemplate"]
            return [group["leaderTemplate"], group["workerTemplate"]]
        case "DynamoGraphDeployment":
            return [component["podTemplate"] for component in item["spec"]["components"]]
        case "Deployment" | "DaemonSet":
            return [item["spec"]["template"]]
        case _:
            return []
