"""Turn values into Kubernetes objects.

Templates give the shape, values fill it in. Every value goes in as a quoted
scalar, so a name or an argument can never change the shape; an object's name
depends on the rack and never on its place in a list, so moving a rack in the
fleet file changes nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

from fleet.load import Fleet
from fleet.plan import make_plan
from fleet.spec import Backend
from infra.frontend import PolicyFile
from infra.gateway import SETS_ANNOTATION, GatewayValues
from infra.options import Layer, Options
from infra.release_values import EngineSettings
from infra.values import PlatformValues, ServingValues, platform_values, region_plan, serving_values

# Raw Kubernetes shape: a tree whose leaves are what YAML has.
KubeObject = dict[str, Any]

CHARTS = Path(__file__).resolve().parent.parent / "charts"
CRDS = CHARTS / "crds"
HASH_DIGITS = 8
_REPLICA: Mapping[Backend, str] = {"lws": "serving/engine", "dgd": "serving/dgd"}

_OURS: Mapping[str, str] = {
    "app.kubernetes.io/part-of": "k3fleet",
    "app.kubernetes.io/managed-by": "k3fleet",
}
# Of what all regions of a cluster have in common: with a region's name in it, the stack of the
# next region would want another value, and the API server would refuse that as a conflict.
_SHARED: Mapping[str, str] = {
    "app.kubernetes.io/name": "cluster",
    "app.kubernetes.io/instance": "shared",
    **_OURS,
}

_OUTSIDE_ASCII = re.compile(r"[^\x20-\x7e]")


def render_region(
    fleet: Fleet, region: str, layer: Layer, options: Options | None = None
) -> list[KubeObject]:
    """Give the objects of one layer of one region, in the order in which they are made."""
    options = options or Options()
    plan = region_plan(make_plan(fleet), region)
    if layer == "platform":
        return list(_platform(platform_values(fleet, plan, options)))
    return list(_serving(serving_values(fleet, plan, options)))


def _platform(values: PlatformValues) -> Iterator[KubeObject]:
    if values.worker_metadata:
        yield _labelled(_yaml((CRDS / "dynamo-worker-metadata.yaml").read_text()), _SHARED)
    yield _object("platform/namespace", values)
    yield _object("platform/priority-class", values)
    for account in values.service_accounts:
        yield _object("platform/service-account", values, account)
    yield _object("platform/role", values)
    yield _object("platform/role-binding", values)
    for domain in values.domains:
        yield _object("platform/compute-domain", values, domain)
    for part in values.surroundings:
        yield _object(part.template, values, part.item)


def _serving(values: ServingValues) -> Iterator[KubeObject]:
    envoy = _text("serving/envoy.yaml", gateway=values.gateway)
    digest = hashlib.sha256(envoy.encode()).hexdigest()[:HASH_DIGITS]
    config_map = f"gateway-{digest}"  # a changed file is a new object, and so restarts the pods
    if values.backend == "lws":  # Dynamo's operator makes Services of its own
        yield _object("serving/engines-service", values)
    if values.frontends:
        yield _object("serving/frontends-service", values)
    for frontend in values.frontends:
        yield _object("serving/frontend-service", values, frontend)
    for policy in _router_policies(values):
        yield _object("serving/router-policy", values, policy)
    yield _object("serving/gateway-service", values)
    yield _object("serving/gateway-config", values, {"name": config_map, "text": envoy})
    yield _object("serving/gateway-sets", values, _gateway_sets(values.gateway))
    for budget in values.budgets:
        yield _object("serving/engines-disruption-budget", values, budget)
    for frontend in values.frontends:
        yield _object("serving/frontend-disruption-budget", values, frontend)
    yield _object("serving/gateway-disruption-budget", values)
    for settings in _engine_settings(values):
        yield _object("serving/engine-settings", values, settings)
    for replica in values.replicas:
        yield _object(_REPLICA[values.backend], values, replica)
    for frontend in values.frontends:
        yield _object("serving/frontend-deployment", values, frontend)
        if values.scaling:
            yield _object("serving/frontend-autoscaler", values, frontend)
    yield _object("serving/gateway-deployment", values, {"config_map": config_map})
    for part in values.surroundings:
        yield _object(part.template, values, part.item)


def _engine_settings(values: ServingValues) -> list[EngineSettings]:
    """Give the files of each release and job once, in the order of the replicas."""
    found = [replica.release.settings for replica in values.replicas]
    return list({item.config_map: item for item in found if item}.values())


def _router_policies(values: ServingValues) -> list[PolicyFile]:
    """Give each file once: sets may have the same."""
    found = [frontend.policy for frontend in values.frontends]
    return list({item.config_map: item for item in found if item}.values())


def _gateway_sets(gateway: GatewayValues) -> Mapping[str, object]:
    sets = gateway.sets
    others = [name for name in sets.order if name != sets.default]
    return {
        "annotation": SETS_ANNOTATION,
        "names": " ".join([sets.default, *others]),
        "files": {
            sets.clusters_file: _text("serving/envoy-clusters.yaml", gateway=gateway),
            sets.routes_file: _text("serving/envoy-routes.yaml", gateway=gateway),
        },
    }


def _object(
    template: str, values: PlatformValues | ServingValues, item: object = None
) -> KubeObject:
    made = _yaml(_text(f"{template}.yaml", values=values, item=item))
    return _labelled(made, _whose(values))


def _yaml(text: str) -> KubeObject:
    loaded: KubeObject = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded


def _whose(values: PlatformValues | ServingValues) -> Mapping[str, str]:
    return {
        "app.kubernetes.io/name": "region",
        "app.kubernetes.io/instance": values.region,
        **_OURS,
        "k3fleet.io/fleet": values.fleet,
        "k3fleet.io/region": values.region,
    }


def _labelled(item: KubeObject, whose: Mapping[str, str]) -> KubeObject:
    """Say on every object whose it is; templates add what it is and where it belongs."""
    item["metadata"]["labels"] = {**whose, **item["metadata"].get("labels", {})}
    return item


def _text(template: str, **variables: object) -> str:
    return _charts().get_template(f"{template}.j2").render(**variables)


@functools.cache
def _charts() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(CHARTS),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - YAML, not HTML: the filter below does the escaping
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = quoted
    return environment


def quoted(value: object) -> str:
    """Write a value as one line of YAML that nothing in it can leave.

    JSON is YAML, except for characters outside ASCII that YAML cannot take raw
    or as JSON's surrogate pairs.
    """
    text = json.dumps(value, ensure_ascii=False)
    return _OUTSIDE_ASCII.sub(lambda found: f"\\U{ord(found.group()):08x}", text)
