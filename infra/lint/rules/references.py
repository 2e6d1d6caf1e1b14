"""What one object names in another must be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra.lint.manifest import Manifest
from infra.lint.pods import PodTemplate, named, sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.selectors import Rank, ranks, selects


class RegionPods:
    """The pods of each region, once for all objects that select among them."""

    def __init__(self, scene: Scene) -> None:
        self._ranks: dict[str, list[Rank]] = {}
        for workload in scene.workloads:
            near = self._ranks.setdefault(workload.manifest.region, [])
            near.extend(ranks(workload))
        self._alike: dict[str, list[Rank]] = {}

    def ranks(self, region: str) -> list[Rank]:
        """Return one of each kind of pods: equal labels and ports count once."""
        if region not in self._alike:
            found = {
                (tuple(sorted(rank.labels.items())), _port_key(rank.template)): rank
                for rank in self._ranks.get(region, ())
            }
            self._alike[region] = list(found.values())
        return self._alike[region]


def _port_key(template: PodTemplate) -> str:
    return repr([container.data.get("ports") for container in template.containers()])


def _selectors(scene: Scene) -> Iterator[Spot]:
    region = RegionPods(scene)
    for manifest in scene.of("Service", "PodDisruptionBudget"):
        near = region.ranks(manifest.region)
        selector = manifest.at("spec", "selector")
        if not near or not selector:
            continue
        if all(selects(selector, rank.labels) is False for rank in near):
            yield Spot(manifest, ("spec", "selector"), "it selects no pod of what is here")


def _ports(scene: Scene) -> Iterator[Spot]:
    region = RegionPods(scene)
    for manifest in scene.of("Service"):
        selector = manifest.at("spec", "selector")
        near = region.ranks(manifest.region)
        chosen = [rank.template for rank in near if selects(selector, rank.labels)]
        names = {name for template in chosen for name in port_names(template)}
        for index, port in enumerate(sequence(manifest.at("spec", "ports"))):
            wanted = port.get("targetPort") if isinstance(port, dict) else None
            if chosen and isinstance(wanted, str) and not wanted.isdigit() and wanted not in names:
                path = ("spec", "ports", index, "targetPort")
                yield Spot(manifest, path, f"no selected pod has a port named {wanted}")


def port_names(template: PodTemplate) -> Iterator[str]:
    """Yield the names of a pod's ports."""
    for container in template.all_containers():
        for port in sequence(container.data.get("ports")):
            if isinstance(port, dict) and port.get("name"):
                yield str(port["name"])


def _autoscaled(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("HorizontalPodAutoscaler"):
        kind = manifest.at("spec", "scaleTargetRef", "kind")
        name = manifest.at("spec", "scaleTargetRef", "name")
        near = [item for item in scene.regions[manifest.region] if item.kind == kind]
        if near and all(item.name != name for item in near):
            yield Spot(manifest, ("spec", "scaleTargetRef"), f"there is no {kind} {name}")


def _volumes(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        known = {volume.name for volume in named(template.spec.get("volumes"))}
        if template.manifest.kind == "StatefulSet":
            known |= _claim_templates(template.manifest)
        for container in template.all_containers():
            for index, name, _ in named(container.data.get("volumeMounts")):
                if name not in known:
                    path = (*container.path, "volumeMounts", index)
                    yield Spot(template.manifest, path, f"the pod has no volume {name}")


def _claim_templates(manifest: Manifest) -> set[str]:
    found = sequence(manifest.at("spec", "volumeClaimTemplates"))
    parts = [item.get("metadata") for item in found if isinstance(item, dict)]
    return {claim.name for claim in named(parts)}


def _claims(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        known = {claim.name for claim in named(template.spec.get("resourceClaims"))}
        for container in template.all_containers():
            path = (*container.path, "resources", "claims")
            for index, name, _ in named(template.manifest.at(*path)):
                if name not in known:
                    what = f"the pod has no resource claim {name}"
                    yield Spot(template.manifest, (*path, index), what)


def _config_keys(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        for index, volume in enumerate(sequence(template.spec.get("volumes"))):
            source = volume.get("configMap") if isinstance(volume, dict) else None
            if not isinstance(source, dict) or source.get("optional"):
                continue
            found = scene.config_maps.get((template.manifest.region, str(source.get("name"))))
            if found is None:
                continue
            keys = _keys(found)
            for place, item in enumerate(sequence(source.get("items"))):
                if isinstance(item, dict) and str(item.get("key")) not in keys:
                    path = (*template.spec_path, "volumes", index, "configMap", "items", place)
                    what = f"ConfigMap {found.name} has no key {item.get('key')}"
                    yield Spot(template.manifest, path, what)


def _keys(config_map: Manifest) -> set[str]:
    parts: list[Mapping[str, Any]] = [
        part
        for name in ("data", "binaryData")
        if isinstance(part := config_map.data.get(name), dict)
    ]
    return {key for part in parts for key in part}


def _accounts(scene: Scene) -> Iterator[Spot]:
    """Look for accounts only where a region makes its own."""
    accounts: dict[str, set[str]] = {}
    for item in scene.of("ServiceAccount"):
        accounts.setdefault(item.region, set()).add(item.name)
    for workload in scene.workloads:
        near = accounts.get(workload.manifest.region)
        for template in workload.templates if near else ():
            name = template.spec.get("serviceAccountName")
            if isinstance(name, str) and name not in ("default", *(near or ())):
                path = (*template.spec_path, "serviceAccountName")
                yield Spot(template.manifest, path, f"there is no ServiceAccount {name}")


_KUBERNETES = "https://kubernetes.io/docs/concepts"

RULES: tuple[Rule, ...] = (
    Rule(
        id="X010",
        severity="error",
        title="A Service or a disruption budget selects pods",
        reason="It does nothing, and nobody is told.",
        source=f"{_KUBERNETES}/services-networking/service/",
        fix="Make its selector meet the labels of the pod template.",
        check=_selectors,
    ),
    Rule(
        id="X011",
        severity="error",
        title="A Service's target port is a port of its pods",
        reason="Connections are refused.",
        source=f"{_KUBERNETES}/services-networking/service/",
        fix="Use the name of a container port, or its number.",
        check=_ports,
    ),
    Rule(
        id="X012",
        severity="error",
        title="An autoscaler's target exists",
        reason="It scales nothing.",
        source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
        fix="Correct kind and name of the target.",
        check=_autoscaled,
    ),
    Rule(
        id="X013",
        severity="error",
        title="A mounted volume is a volume of the pod",
        reason="The API server refuses the pods, long after it took what makes them.",
        source=f"{_KUBERNETES}/storage/volumes/",
        fix="Add the volume, or correct the mount's name.",
        check=_volumes,
    ),
    Rule(
        id="X014",
        severity="error",
        title="A container's resource claim is a claim of its pod",
        reason="The API server refuses the pods, long after it took what makes them.",
        source=f"{_KUBERNETES}/scheduling-eviction/dynamic-resource-allocation/",
        fix="Add it to the pod's resourceClaims, or correct the name.",
        check=_claims,
    ),
    Rule(
        id="X015",
        severity="error",
        title="A key that is mounted is in its ConfigMap",
        reason="The pod waits for it for ever.",
        source=f"{_KUBERNETES}/configuration/configmap/",
        fix="Add the key, or correct its name.",
        check=_config_keys,
    ),
    Rule(
        id="X016",
        severity="error",
        title="A pod's service account exists",
        reason="No pod is made.",
        source="https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/",
        fix="Add the ServiceAccount, or correct the name.",
        check=_accounts,
    ),
)
