"""Objects are what their kind's schema says, in an apiVersion that the cluster has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.yaml_document import NodePath
from infra.lint.alike import Alike
from infra.lint.api_versions import is_own, off_by_default, refusal
from infra.lint.core_schema import (
    Kind,
    Schemas,
    custom_kinds,
    group_of,
    nearest_version,
    schemas_of,
)
from infra.lint.manifest import Manifest
from infra.lint.pods import sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.schema_faults import Fault, faults

GRAPH = "DynamoGraphDeployment"
_OLD, _NEW = "nvidia.com/v1alpha1", "nvidia.com/v1beta1"

# What the two versions of a graph call the same thing. Source: ai-dynamo/dynamo,
# deploy/operator/api/v1beta1, the conversion from and to v1alpha1.
_OLD_SPEC: Mapping[str, str] = {
    "services": "components, a list whose items have a name",
    "envs": "env",
    "pvcs": "volumes of a component's podTemplate.spec",
}
_OLD_COMPONENT: Mapping[str, str] = {
    "componentType": "type",
    "subComponentType": "type",
    "envs": "env of the container main in podTemplate",
    "envFromSecret": "envFrom of the container main in podTemplate",
    "extraPodMetadata": "podTemplate.metadata",
    "extraPodSpec": "podTemplate.spec, with mainContainer as the container main",
    "livenessProbe": "livenessProbe of the container main in podTemplate",
    "readinessProbe": "readinessProbe of the container main in podTemplate",
    "resources": "resources of the container main in podTemplate",
    "sharedMemory": "sharedMemorySize",
    "volumeMounts": "volumeMounts of the container main in podTemplate",
}
_NEW_COMPONENT: Mapping[str, str] = {
    "podTemplate": "extraPodSpec",
    "sharedMemorySize": "sharedMemory.size",
    "type": "componentType",
}


def _invalid(scene: Scene) -> Iterator[Spot]:
    schemas = _schemas(scene)
    seen: dict[str, tuple[Fault, ...]] = {}
    for manifest in scene.manifests:
        validator = schemas.validator(_kind(manifest))
        if validator is None:
            continue
        try:
            alike = Alike.of(manifest)
            if alike.text not in seen:
                seen[alike.text] = faults(validator, alike.data())
        except (ValueError, RecursionError):
            what = "it contains itself, or nests too deeply to be checked"
            yield Spot(manifest, (), what, "Nest it less deeply, and write it without aliases.")
            continue
        mixed = {path for path, _ in _mixed_fields(manifest)} if seen[alike.text] else set()
        for fault in seen[alike.text]:
            path = alike.restored_path(fault.path)
            if path not in mixed:  # K020 says more about it
                what, fix = alike.restored(fault.what), alike.restored(fault.fix)
                yield Spot(manifest, path, what, fix)


def _not_served(scene: Scene) -> Iterator[Spot]:
    schemas = _schemas(scene)
    for manifest in scene.manifests:
        kind = _kind(manifest)
        if kind in schemas.core or not is_own(schemas, manifest.api_version):
            continue
        if found := refusal(schemas, kind, scene.kubernetes):
            yield Spot(manifest, ("apiVersion",), found.what, found.fix)


def _off(scene: Scene) -> Iterator[Spot]:
    schemas = _schemas(scene)
    for manifest in scene.manifests:
        kind = _kind(manifest)
        if kind in schemas.core and off_by_default(kind):
            api_version = manifest.api_version
            yield Spot(
                manifest,
                ("apiVersion",),
                f"{api_version} is off by default",
                f"Start the API server with --runtime-config={api_version}=true and the kind's "
                "feature gates, or leave the object out.",
            )


def _unknown(scene: Scene) -> Iterator[Spot]:
    schemas = _schemas(scene)
    for manifest in _first_of_each(scene):
        group = group_of(manifest.api_version), manifest.kind
        if not is_own(schemas, manifest.api_version) and group not in _versions():
            yield Spot(manifest, ("kind",), f"no schema for {manifest.api_version} {manifest.kind}")


def _unknown_version(scene: Scene) -> Iterator[Spot]:
    for manifest in _first_of_each(scene):
        checked = _versions().get((group_of(manifest.api_version), manifest.kind), ())
        if checked and manifest.api_version not in checked:
            what = f"no schema for {manifest.kind} in {manifest.api_version}"
            fix = f"Nothing; only {' and '.join(checked)} of this kind is checked."
            yield Spot(manifest, ("apiVersion",), what, fix)


def _mixed(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of(GRAPH):
        for path, other in _mixed_fields(manifest):
            version = _OLD if manifest.api_version == _NEW else _NEW
            yield Spot(
                manifest,
                path,
                f"{path[-1]!r} is a field of {version}, the object is {manifest.api_version}",
                f"Write {other}.",
            )


def _mixed_fields(manifest: Manifest) -> Iterator[tuple[NodePath, str]]:
    """Yield the fields of a graph that only the other version has, and what this one calls them."""
    if manifest.kind != GRAPH:
        return
    if manifest.api_version == _NEW:
        yield from _present(manifest, ("spec",), _OLD_SPEC)
        for index, _ in enumerate(sequence(manifest.at("spec", "components"))):
            yield from _present(manifest, ("spec", "components", index), _OLD_COMPONENT)
    elif manifest.api_version == _OLD:
        other = "services, a mapping of names"
        yield from _present(manifest, ("spec",), {"components": other})
        services = manifest.at("spec", "services")
        for name in services if isinstance(services, dict) else ():
            yield from _present(manifest, ("spec", "services", name), _NEW_COMPONENT)


def _present(
    manifest: Manifest, path: NodePath, names: Mapping[str, str]
) -> Iterator[tuple[NodePath, str]]:
    found = manifest.at(*path)
    if isinstance(found, dict):
        yield from (((*path, name), other) for name, other in names.items() if name in found)


def _first_of_each(scene: Scene) -> Iterator[Manifest]:
    """Yield the first object of each kind of each file: one word about a kind is enough."""
    seen = set()
    for manifest in scene.manifests:
        key = (manifest.file, _kind(manifest))
        if key not in seen:
            seen.add(key)
            yield manifest


def _versions() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Map the group and kind of custom objects to the apiVersions that have a schema."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for api_version, kind in custom_kinds():
        key = (group_of(api_version), kind)
        found[key] = (*found.get(key, ()), api_version)
    return found


def _schemas(scene: Scene) -> Schemas:
    return schemas_of(nearest_version(scene.kubernetes))


def _kind(manifest: Manifest) -> Kind:
    return manifest.api_version, manifest.kind


RULES: tuple[Rule, ...] = (
    Rule(
        id="S001",
        severity="error",
        title="An object has only the fields of its kind, with values of their type",
        reason="The API server refuses the object, or drops what it does not know and goes on "
        "without it.",
        source="https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation",
        fix="Correct the field.",
        check=_invalid,
    ),
    Rule(
        id="S002",
        severity="info",
        title="Alpha and beta APIs are there only where they were switched on",
        reason="Since Kubernetes 1.24 a cluster does not serve a new beta API unless it was told "
        "to, so the object cannot be made.",
        source="KEP-3136 (Beta APIs Are Off by Default)",
        fix="Switch the API on, or leave the object out.",
        check=_off,
    ),
    Rule(
        id="S003",
        severity="info",
        title="Objects of kinds without a schema are not checked for wrong fields",
        reason="A custom kind's schema is in the cluster, and the linter knows only some.",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/",
        fix="Nothing; `kubectl apply --dry-run=server` on the cluster checks it.",
        check=_unknown,
    ),
    Rule(
        id="S004",
        severity="info",
        title="Custom objects are checked in the versions that have a schema",
        reason="Fields differ between versions of a kind, so one version's schema says nothing "
        "about another's objects.",
        source="https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/"
        "custom-resource-definition-versioning/",
        fix="Nothing; `kubectl apply --dry-run=server` on the cluster checks it.",
        check=_unknown_version,
    ),
    Rule(
        id="K015",
        severity="error",
        title="The cluster's version serves the apiVersion of every object",
        reason="The API server answers `no matches for kind`, and nothing is made.",
        source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
        fix="Write an apiVersion that the cluster has.",
        check=_not_served,
    ),
    Rule(
        id="K020",
        severity="error",
        title="A DynamoGraphDeployment keeps to the fields of its own version",
        reason="The API server refuses fields of the other version, or drops them, and the graph "
        "runs without its pods' settings.",
        source="ai-dynamo/dynamo deploy/operator/api (v1alpha1 and v1beta1)",
        fix="Write the fields of one version.",
        check=_mixed,
    ),
)
