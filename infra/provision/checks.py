"""Check, before a stack is touched, that it is applied to the right cluster and account."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from fleet.plan import make_plan
from infra.outputs import Remembered
from infra.provision.cluster import require_ours, require_same
from infra.provision.ground import IN_CLUSTER, FleetStacks
from infra.provision.releases import require_unchanged
from infra.settings import Settings
from infra.stacks import StackRunner
from infra.values import assigned_releases, region_plan

# Clouds whose credentials can be asked whose they are. A cloud's SDK takes a second to load.
_ACCOUNTS: Mapping[str, str] = {"aws": "infra.provision.account_aws"}


def require_account(stacks: FleetStacks, region: str) -> None:
    """Raise AccountError unless the credentials are those of the account that is meant.

    `region`: empty for what all regions share.
    """
    shared = stacks.fleet.spec.global_spec
    if not region:  # what all regions share is in AWS
        if shared:
            import_module(_ACCOUNTS["aws"]).require_account("global", shared)
        return
    spec = stacks.region(region)
    module = _ACCOUNTS.get(spec.cloud)
    if module and spec.cluster:
        import_module(module).require_account(region, spec.cluster)


def require_cluster(stacks: FleetStacks, runner: StackRunner, deployed: Remembered) -> None:
    """Raise ClusterError unless a stack's cluster answers, is its own, and belongs to nobody else.

    `deployed`: what the stack's last update left.
    """
    if runner.layer not in IN_CLUSTER:
        return
    region = runner.settings.region
    look = stacks.look(region)
    require_same(region, look.uid(), deployed.cluster_uid)
    namespace = stacks.namespace(runner)
    require_ours(stacks.fleet.spec.name, region, namespace, look.owner(namespace))


def turned_replicas(
    stacks: FleetStacks, runner: StackRunner, deployed: Remembered
) -> frozenset[str]:
    """Give the replicas that a rollout is turning; raise RefusedError for any other turn."""
    settings = runner.settings
    if runner.layer != "serving" or not isinstance(settings, Settings):
        return frozenset()
    plan = region_plan(make_plan(stacks.fleet), settings.region)
    options = settings.options
    wanted = assigned_releases(stacks.fleet, plan, options)
    return require_unchanged(runner.stack, deployed, wanted, options.serial, options.assignment)
