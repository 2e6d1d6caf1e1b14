"""No image and no chart that somebody else can move."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from fleet.schema import has_digest
from infra.lint.pods import workloads
from infra.policy_pack.kubernetes import manifest_of
from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Resource

# What k3fleet runs unless told otherwise, frontends and gateways. Neither project moves the tags of
# its releases; a team that trusts nobody's gives an empty list.
ALLOWED = (
    "nvcr.io/nvidia/ai-dynamo/*:[0-9]*.[0-9]*.[0-9]*",
    "docker.io/envoyproxy/envoy:distroless-v[0-9]*.[0-9]*.[0-9]*",
)
_CHART = re.compile(r"kubernetes:helm\.sh/v[34]:(?:Chart|Release)")
_EXACT = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][\w.+-]+)?")


def _floating(resource: Resource, config: Config) -> Faults:
    manifest = manifest_of(resource)
    allowed = config.get("allowed", ALLOWED)
    for workload in workloads(manifest) if manifest else ():
        for template in workload.templates:
            for container in template.all_containers():
                image = container.image
                if not image or image == UNKNOWN or has_digest(image):
                    continue
                if any(fnmatchcase(image, pattern) for pattern in allowed):
                    continue
                what = f"container {container.name} runs {image}, which can be moved"
                yield Fault(resource, what, "Give it by digest, or name it among the allowed ones")


def _charts(resource: Resource, _config: Config) -> Faults:
    if not _CHART.fullmatch(resource.type):
        return
    version = resource.at("version")
    if version != UNKNOWN and not (isinstance(version, str) and _EXACT.fullmatch(version)):
        yield Fault(resource, f"chart {resource.at('chart')} has no exact version", "Pin it")


POLICIES = (
    Policy(
        name="images-by-digest",
        title="Images are given by digest, or allowed by name",
        one=_floating,
        config={
            "allowed": {"type": "array", "items": {"type": "string"}, "default": list(ALLOWED)}
        },
    ),
    Policy(name="charts-by-version", title="Charts have an exact version", one=_charts),
)
