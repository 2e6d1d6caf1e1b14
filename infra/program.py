"""Declare rendered objects to Pulumi.

One resource per object, with a logical name made of kind, namespace and name:
it is stable, so that a plan shows an update where an update is meant. The
objects come ready-made from `infra.render`; this file only adds what Pulumi has
to know about them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi_kubernetes import KubeClientSettingsArgs, Provider

from fleet.errors import ConfigError, FleetError
from fleet.load import load_fleet
from fleet.plan import make_plan
from infra.declared import inputs_of, logical_name, type_token
from infra.operators import region_charts
from infra.options import Layer
from infra.protected import PROTECTED
from infra.render import KubeObject, render_region
from infra.settings import Settings, from_config
from infra.values import assigned_releases, region_plan

# Its uid is made with a cluster and never changes: it is the cluster's identity.
CLUSTER_NAMESPACE = "kube-system"

_READ_FILES = frozenset({"DaemonSet", "Deployment", "DynamoGraphDeployment"})

# What a webhook refuses to change in place: the object is deleted and made anew.
REPLACED_ON: Mapping[str, tuple[str, ...]] = {
    "DynamoGraphDeployment": (
        "spec.backendFramework",
        "spec.components[*].name",
        "spec.components[*].type",
        "spec.components[*].multinode",
    )
}

# The client's own limit of 5 requests a second makes a region of 20 racks slow.
_REQUESTS_PER_S = 100
_BURST = 200


def run(layer: Layer) -> None:
    """Be the whole program of a layer; a user's mistake ends it without a traceback."""
    try:
        settings = from_config(pulumi.Config())
        fleet = load_fleet(settings.fleet)
        objects = render_region(fleet, settings.region, layer, settings.options)
        region = region_plan(make_plan(fleet), settings.region)
        _check_kubeconfig(settings.kubeconfig)
    except FleetError as error:
        raise pulumi.RunError(str(error)) from error
    before = _Deployed()
    # The provider, and so all else, waits for this read in both layers: every step of the engine
    # writes the file that is read here, and who reads it meanwhile may find it empty.
    newest = before.output("serial").apply(lambda found: _require_newest(found, settings))
    provider = _provider(fleet.spec.name, settings, newest)
    cluster = _Cluster(provider)
    uid = pulumi.Output.all(before.output("cluster_uid"), cluster.metadata).apply(_require_same)
    checked = uid.apply(lambda _: cluster)
    gates: Mapping[str, Sequence[pulumi.Resource]] = {}
    if layer == "platform" and (charts := region_charts(fleet, settings.region)):
        # Only where it is asked for: Helm's part of the SDK is slow to load.
        from infra.operator_releases import declare_operators  # noqa: PLC0415

        gates = declare_operators(charts, provider, [checked])
    declare(objects, provider, checked, gates)
    outputs: dict[str, Any] = {
        "region": settings.region,
        "namespace": settings.options.namespace or fleet.spec.namespace,
        "cluster_uid": uid,
    }
    if layer == "serving":
        outputs["serial"] = settings.options.serial
        outputs["releases"] = assigned_releases(fleet, region, settings.options)
        outputs["shared"] = settings.options.shared or fleet.release_id
    for name, value in outputs.items():
        # Outputs too wait for the check: a refused update must not say that it was deployed.
        pulumi.export(name, pulumi.Output.all(uid, value).apply(lambda both: both[1]))


def declare(
    objects: Iterable[KubeObject],
    provider: pulumi.ProviderResource,
    cluster: pulumi.Output[pulumi.Resource] | None = None,
    gates: Mapping[str, Sequence[pulumi.Resource]] | None = None,
) -> list[pulumi.CustomResource]:
    """Declare each object once, after what it needs; all of them after the check of the cluster.

    `gates`: kind -> operators without which the cluster does not know it.
    """
    first: list[pulumi.Input[pulumi.Resource]] = [] if cluster is None else [cluster]
    declared: list[pulumi.CustomResource] = []
    needed: dict[str, list[pulumi.Resource]] = {"Namespace": [], "ConfigMap": []}
    for item in objects:
        kind = str(item["kind"])
        depends_on: list[pulumi.Input[pulumi.Resource]] = [*first, *needed["Namespace"]]
        depends_on += (gates or {}).get(kind, ())
        if kind in _READ_FILES:  # a ConfigMap has a new name when its content changes
            depends_on += needed["ConfigMap"]
        protected = kind in PROTECTED
        resource = pulumi.CustomResource(
            type_token(item),
            logical_name(item),
            inputs_of(item),
            pulumi.ResourceOptions(
                provider=provider,
                depends_on=depends_on,
                protect=protected or None,
                retain_on_delete=protected or None,
                replace_on_changes=list(REPLACED_ON.get(kind, ())) or None,
                delete_before_replace=kind in REPLACED_ON or None,
            ),
        )
        needed.setdefault(kind, []).append(resource)
        declared.append(resource)
    return declared


def _check_kubeconfig(file: Path) -> None:
    """Say what is wrong before the provider says it once per object."""
    if not file.is_file():
        raise ConfigError(
            f"stack configuration: kubeconfig: {file} is not a file. "
            "Set the path of a kubeconfig of the region's cluster."
        )


class _Cluster(pulumi.CustomResource):
    """The namespace that is the cluster's identity, read and never ours.

    Not the SDK's class of it: with that come all kinds of the core, which take as long to load as
    all of Pulumi.
    """

    metadata: pulumi.Output[Any]

    def __init__(self, provider: pulumi.ProviderResource) -> None:
        super().__init__(
            "kubernetes:core/v1:Namespace",
            "cluster",
            {"metadata": None},
            pulumi.ResourceOptions(provider=provider, id=CLUSTER_NAMESPACE),
        )


class _Deployed:
    """What the last update of this stack left; None before the first one."""

    def __init__(self) -> None:
        stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        self._stack = pulumi.StackReference(stack)

    def output(self, name: str) -> pulumi.Output[Any]:
        found: pulumi.Output[Any] = self._stack.get_output(name)
        return found


def _require_same(both: list[Any]) -> str | None:
    """Give the identity of the cluster, unless the stack has brought up another one.

    Every object waits for it: nothing is made in a cluster that a kubeconfig leads to by mistake.
    """
    deployed, metadata = both
    uid = metadata.get("uid") if isinstance(metadata, dict) else getattr(metadata, "uid", None)
    if deployed and uid and deployed != uid:
        logging.getLogger("asyncio").disabled = True  # as above
        raise pulumi.RunError(
            f"stack configuration: kubeconfig: leads to cluster {uid}, and this stack is of "
            f"cluster {deployed}. Name the kubeconfig and context of that one. To move the region "
            "on purpose, bring it up as a region of another name, then take this one down."
        )
    return None if uid is None else str(uid)


def _require_newest(deployed: object, settings: Settings) -> str:
    """Give the kubeconfig's path, unless another working copy has gone on since this one.

    Every object waits for it, because the provider does: nothing of an old assignment is applied.
    """
    serial = settings.options.serial
    if isinstance(deployed, int | float) and serial < deployed:
        # Each object that waits for this fails with it; asyncio would print a traceback for each.
        logging.getLogger("asyncio").disabled = True
        raise pulumi.RunError(
            f"stack configuration: serial {serial} is older than the deployed {deployed:.0f}: "
            "a rollout went on in another working copy. Bring this one up to date, then run "
            f"again: k3fleet rollout sync {settings.fleet}"
        )
    return str(settings.kubeconfig)


def _provider(fleet: str, settings: Settings, kubeconfig: pulumi.Output[str]) -> Provider:
    return Provider(
        "kubernetes",
        kubeconfig=kubeconfig,
        context=settings.context,
        # Without it, a kubeconfig at another path would count as another cluster.
        cluster_identifier=f"{fleet}-{settings.region}",
        enable_server_side_apply=True,
        # A changed ConfigMap would be deleted and made anew, under gateways that read it.
        enable_config_map_mutable=True,
        kube_client_settings=KubeClientSettingsArgs(qps=_REQUESTS_PER_S, burst=_BURST),
    )
