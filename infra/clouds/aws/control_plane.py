"""Make the EKS control plane: who reaches it, who administrates it, what it encrypts and logs."""

from __future__ import annotations

import pulumi
from pulumi_aws import cloudwatch, eks, kms

from infra.clouds.aws.network import Network
from infra.clouds.aws.roles import control_plane_role, partition
from infra.clouds.aws.site import Site

KEY_DELETION_DAYS = 30  # the most that KMS allows: time to notice


def make_cluster(site: Site, network: Network) -> eks.Cluster:
    """Make the control plane and let the administrators in."""
    cluster, place = site.cluster, site.place
    role = control_plane_role(site)
    logs = _logs(site)
    made = eks.Cluster(
        site.name("cluster"),
        name=place.name,
        version=place.kubernetes,
        role_arn=role.arn,
        deletion_protection=True,
        vpc_config=eks.ClusterVpcConfigArgs(
            subnet_ids=[network.control_plane[zone] for zone in sorted(network.control_plane)],
            endpoint_private_access=True,
            endpoint_public_access=bool(cluster.endpoint.public_from),
            public_access_cidrs=list(cluster.endpoint.public_from) or None,
        ),
        access_config=eks.ClusterAccessConfigArgs(
            authentication_mode="API",
            # The administrators are those of the fleet file, whoever ran the program first.
            bootstrap_cluster_creator_admin_permissions=False,
        ),
        encryption_config=eks.ClusterEncryptionConfigArgs(
            resources=["secrets"],
            provider=eks.ClusterEncryptionConfigProviderArgs(key_arn=_secrets_key(site)),
        ),
        enabled_cluster_log_types=sorted(cluster.logs),
        bootstrap_self_managed_addons=False,  # ours have pinned versions
        # With STANDARD, AWS itself upgrades a cluster on the last day of its version.
        upgrade_policy=eks.ClusterUpgradePolicyArgs(support_type="EXTENDED"),
        opts=site.options(eks.Cluster, depends_on=[*role.granted, logs]),
    )
    for admin in cluster.admins:
        _let_in(site, made, admin)
    return made


def _logs(site: Site) -> cloudwatch.LogGroup:
    """Make the logs' place before EKS makes it, which would keep them for ever."""
    return cloudwatch.LogGroup(
        site.name("logs"),
        name=f"/aws/eks/{site.place.name}/cluster",
        retention_in_days=site.cluster.log_days,
        opts=site.options(cloudwatch.LogGroup),
    )


def _secrets_key(site: Site) -> pulumi.Input[str]:
    if site.cluster.secrets_key is not None:
        return site.cluster.secrets_key
    key = kms.Key(
        site.name("secrets-key"),
        description=f"Kubernetes Secrets of {site.place.name}",
        enable_key_rotation=True,
        deletion_window_in_days=KEY_DELETION_DAYS,
        opts=site.options(kms.Key),
    )
    arn: pulumi.Output[str] = key.arn
    return arn


def _let_in(site: Site, cluster: eks.Cluster, principal: str) -> None:
    part = f"admin-{principal.rpartition(':')[2]}"
    entry = eks.AccessEntry(
        site.name(part),
        cluster_name=cluster.name,
        principal_arn=principal,
        opts=site.options(eks.AccessEntry),
    )
    policy = f"arn:{partition(site.cluster.region)}:eks::aws:cluster-access-policy"
    eks.AccessPolicyAssociation(
        site.name(part),
        cluster_name=cluster.name,
        principal_arn=principal,
        policy_arn=f"{policy}/AmazonEKSClusterAdminPolicy",
        access_scope=eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
        opts=site.options(eks.AccessPolicyAssociation, depends_on=[entry]),
    )
