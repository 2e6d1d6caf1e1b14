"""Read a file of a container that a ConfigMap beside it holds."""

from __future__ import annotations

from collections.abc import Mapping

from infra.lint.manifest import Manifest
from infra.lint.pods import Container, PodTemplate, named

ConfigMaps = Mapping[tuple[str, str], Manifest]  # by region and name


def mounted_text(
    path: str, container: Container, template: PodTemplate, config_maps: ConfigMaps
) -> str | None:
    """Return what stands in a file; None where no ConfigMap here holds it.

    Volumes that pick or rename keys (`items`, `subPath`) are not followed.
    """
    folder, _, file = path.rpartition("/")
    volumes = {volume.name: volume.data for volume in named(template.spec.get("volumes"))}
    for mount in named(container.data.get("volumeMounts")):
        source = volumes.get(mount.name, {}).get("configMap")
        if str(mount.data.get("mountPath")).rstrip("/") != folder or not isinstance(source, dict):
            continue
        found = config_maps.get((template.manifest.region, str(source.get("name"))))
        whole = "items" not in source and "subPath" not in mount.data
        text = found.at("data", file) if found and whole else None
        return text if isinstance(text, str) else None
    return None
