"""A rack's ComputeDomain, and who claims it.

Whether a ComputeDomain is part of a rollout's diff (K007 of the plan of rules)
cannot be seen in manifests: the Pulumi programs protect it.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.lint.manifest import RACK, Manifest
from infra.lint.pods import PodTemplate, Workload, named
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

_TEMPLATE_NAME = ("spec", "channel", "resourceClaimTemplate", "name")


def _domains(scene: Scene) -> Iterator[Spot]:
    seen: dict[tuple[str, str, str], Manifest] = {}
    for manifest in scene.of("ComputeDomain"):
        nodes = manifest.at("spec", "numNodes")
        if nodes not in (None, 0):
            what = f"numNodes is {nodes}: with scheduling gates the domain and its pods wait for "
            yield Spot(manifest, ("spec", "numNodes"), what + "each other")
        rack = manifest.labels.get(RACK)
        first = seen.setdefault((manifest.region, manifest.namespace, rack or ""), manifest)
        if rack and first is not manifest:
            what = f"rack {rack} has the domain {first.name} already"
            yield Spot(manifest, ("metadata", "name"), what)
    for workload in scene.engines:
        if workload.is_group:
            for template in workload.templates:
                yield from _claims(scene, workload, template)


def _claims(scene: Scene, workload: Workload, template: PodTemplate) -> Iterator[Spot]:
    """Follow container claim → pod claim → claim template → domain."""
    near = scene.regions[workload.manifest.region]
    templates = {
        str(item.at(*_TEMPLATE_NAME)): item.labels.get(RACK)
        for item in near
        if item.kind == "ComputeDomain"
    }
    if not templates:  # the domains are somewhere else, or there is no DRA driver
        return
    others = {item.name for item in near if item.kind == "ResourceClaimTemplate"}
    used = {
        claim.name
        for container in template.containers()
        for claim in named(container.manifest.at(*container.path, "resources", "claims"))
    }
    has_channel = False
    for index, name, item in named(template.spec.get("resourceClaims")):
        path = (*template.spec_path, "resourceClaims", index)
        wanted = item.get("resourceClaimTemplateName")
        if not isinstance(wanted, str):
            continue
        has_channel = has_channel or wanted in templates
        if wanted not in templates.keys() | others:
            what = f"no ComputeDomain here makes the claim template {wanted}"
            yield Spot(workload.manifest, (*path, "resourceClaimTemplateName"), what)
        elif wanted in templates and name not in used:
            what = f"no container takes the claim {name}"
            yield Spot(workload.manifest, path, what)
        if other := _of_another_rack(workload, wanted, templates.get(wanted)):
            yield Spot(workload.manifest, (*path, "resourceClaimTemplateName"), other)
    if not has_channel:
        what = "a replica spans nodes, but its pods claim no channel of a ComputeDomain"
        yield Spot(workload.manifest, template.spec_path, what)


def _of_another_rack(workload: Workload, claim: str, rack: str | None) -> str | None:
    pins = {item.node_values(RACK) for item in workload.templates}
    racks = next(iter(pins)) if len(pins) == 1 else ()  # of several K002 speaks
    if not rack or not racks or rack in racks:
        return None
    return f"{claim} is of rack {rack}, the pods are bound to {' or '.join(racks)}"


RULES: tuple[Rule, ...] = (
    Rule(
        id="K006",
        severity="error",
        title="A rack has one ComputeDomain, for any number of nodes, which its engines claim",
        reason="A second domain in a rack, or none, leaves the ranks without NVLink memory.",
        source="grove#215, dra#892",
        fix="Keep one ComputeDomain with numNodes 0 per rack, and claim its template in the pod "
        "and in the engine's container.",
        check=_domains,
    ),
)
