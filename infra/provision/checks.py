"""Check, before a stack is touched, that it is applied to the right cluster and account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from fleet.errors import AccountError
from fleet.plan import make_plan
from infra.provision.cluster import require_ours, require_same
from infra.provision.ground import IN_CLUSTER, FleetStacks
from infra.provision.releases import require_unchanged
from infra.settings import Settings
from infra.stacks import StackRunner
from infra.state.bucket import client
from infra.values import assigned_releases, region_plan


def require_account(stacks: FleetStacks, region: str) -> None:
    """Raise AccountError unless the credentials are those of the region's account."""
    spec = stacks.region(region)
    check = _ACCOUNTS.get(spec.cloud)
    cluster = getattr(spec, "cluster", None)
    if check and cluster:
        check(region, cluster)


def require_cluster(stacks: FleetStacks, runner: StackRunner, deployed: Mapping[str, Any]) -> None:
    """Raise ClusterError unless a stack's cluster answers, is its own, and belongs to nobody else.

    `deployed`: the stack's outputs.
    """
    if runner.layer not in IN_CLUSTER:
        return
    region = runner.settings.region
    look = stacks.look(region)
    require_same(region, look.uid(), deployed.get("cluster_uid"))
    namespace = stacks.namespace(runner)
    require_ours(stacks.fleet.spec.name, region, namespace, look.owner(namespace))


def turned_replicas(
    stacks: FleetStacks, runner: StackRunner, deployed: Mapping[str, Any]
) -> frozenset[str]:
    """Give the replicas that a rollout is turning; raise RefusedError for any other turn."""
    settings = runner.settings
    if runner.layer != "serving" or not isinstance(settings, Settings):
        return frozenset()
    plan = region_plan(make_plan(stacks.fleet), settings.region)
    options = settings.options
    wanted = assigned_releases(stacks.fleet, plan, options)
    return require_unchanged(runner.stack, deployed, wanted, options.serial, options.assignment)


class _AwsCluster(Protocol):
    @property
    def account(self) -> str: ...

    @property
    def region(self) -> str: ...


def _aws_account(region: str, cluster: _AwsCluster) -> None:
    try:
        found = client("sts", {"region": cluster.region}).get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise AccountError(
            f"{region}: nobody can say whose credentials these are: {type(error).__name__}. "
            "Log in to the region's account, then run again."
        ) from error
    if found != cluster.account:
        raise AccountError(
            f"{region}: these are credentials of account {found}, and the region is in "
            f"{cluster.account}. Use those of that account; nothing was touched."
        )


# Clouds whose credentials can be asked whose they are.
_ACCOUNTS: Mapping[str, Callable[[str, Any], None]] = {"aws": _aws_account}
