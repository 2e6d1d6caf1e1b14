"""What watches, guards or allows something must meet it."""

from __future__ import annotations

from collections.abc import Iterator

from infra.lint.manifest import Manifest
from infra.lint.pods import sequence
from infra.lint.rule import Rule, Spot
from infra.lint.rules.references import RegionPods, port_names
from infra.lint.scene import Scene
from infra.lint.selectors import selects


def _monitors(scene: Scene) -> Iterator[Spot]:
    region = RegionPods(scene)
    for manifest in scene.of("PodMonitor"):
        near = region.ranks(manifest.region)
        selector = manifest.at("spec", "selector")
        if not near or not selector:
            continue
        if all(selects(selector, rank.labels) is False for rank in near):
            yield Spot(manifest, ("spec", "selector"), "it selects no pod of what is here")
            continue
        chosen = [rank.template for rank in near if selects(selector, rank.labels)]
        names = {name for template in chosen for name in port_names(template)}
        for index, item in enumerate(sequence(manifest.at("spec", "podMetricsEndpoints"))):
            port = item.get("port") if isinstance(item, dict) else None
            if chosen and isinstance(port, str) and port not in names:
                path = ("spec", "podMetricsEndpoints", index, "port")
                yield Spot(manifest, path, f"no selected pod has a port named {port}")


def _policies(scene: Scene) -> Iterator[Spot]:
    region = RegionPods(scene)
    for manifest in scene.of("NetworkPolicy"):
        near = region.ranks(manifest.region)
        selector = manifest.at("spec", "podSelector")
        if near and selector and all(selects(selector, rank.labels) is False for rank in near):
            yield Spot(manifest, ("spec", "podSelector"), "it selects no pod of what is here")


def _bindings(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("RoleBinding"):
        kind, name = manifest.at("roleRef", "kind"), manifest.at("roleRef", "name")
        if kind == "Role" and _lacks(scene, manifest, "Role", name, manifest.namespace):
            yield Spot(manifest, ("roleRef", "name"), f"there is no Role {name}")
        for index, item in enumerate(sequence(manifest.at("subjects"))):
            if not isinstance(item, dict) or item.get("kind") != "ServiceAccount":
                continue
            place = str(item.get("namespace") or manifest.namespace)
            if _lacks(scene, manifest, "ServiceAccount", item.get("name"), place):
                what = f"there is no ServiceAccount {item.get('name')}"
                yield Spot(manifest, ("subjects", index, "name"), what)


def _lacks(scene: Scene, binding: Manifest, kind: str, name: object, namespace: str) -> bool:
    """Say whether a name is missing where its namespace's others are."""
    near = {
        item.name
        for item in scene.regions[binding.region]
        if item.kind == kind and item.namespace == namespace
    }
    return bool(near) and name not in {*near, "default"}


def _twice(scene: Scene) -> Iterator[Spot]:
    seen: dict[tuple[str, ...], Manifest] = {}
    for item in scene.manifests:
        group = item.api_version.rpartition("/")[0]
        first = seen.setdefault((item.region, group, item.kind, item.namespace, item.name), item)
        if first is not item and item.name:
            line = first.line(())
            where = first.file if line is None else f"{first.file}:{line}"
            yield Spot(item, ("metadata", "name"), f"it is in {where} already")


_KUBERNETES = "https://kubernetes.io/docs"

RULES: tuple[Rule, ...] = (
    Rule(
        id="X017",
        severity="info",
        title="A RoleBinding's role and accounts exist",
        reason="It grants nothing, and requests are refused without a word about it.",
        source=f"{_KUBERNETES}/reference/access-authn-authz/rbac/",
        fix="Correct the name, or give the object that is meant too.",
        check=_bindings,
    ),
    Rule(
        id="X018",
        severity="warning",
        title="An object is given once",
        reason="The one that is applied last wins, and a reader believes the first.",
        source=f"{_KUBERNETES}/concepts/overview/working-with-objects/names/",
        fix="Keep one of them.",
        check=_twice,
    ),
    Rule(
        id="X019",
        severity="warning",
        title="A PodMonitor meets pods, and a port of theirs",
        reason="Nothing is measured, and alerts on it stay silent.",
        source="https://prometheus-operator.dev/docs/api-reference/api/",
        fix="Make its selector meet the pods' labels, and its ports their ports' names.",
        check=_monitors,
    ),
    Rule(
        id="X020",
        severity="info",
        title="A NetworkPolicy selects pods",
        reason="It guards nothing of what is here.",
        source=f"{_KUBERNETES}/concepts/services-networking/network-policies/",
        fix="Make its podSelector meet the pods' labels.",
        check=_policies,
    ),
)
