"""Install the add-ons of EKS in the versions that the fleet file pins.

Those that nodes need to become ready come before the nodes, the others after the
system nodes that carry them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pulumi
from pulumi_aws import eks

from infra.clouds.aws.roles import pod_role
from infra.clouds.aws.site import Site

# DaemonSets on the hosts' network, without which a node never becomes ready.
FOR_NODES = frozenset({"vpc-cni", "kube-proxy", "eks-pod-identity-agent"})


class Identity(NamedTuple):
    """What an add-on's pods call AWS as."""

    service_account: str
    policy: str


# The EKS guide's add-on pages.
IDENTITIES = {
    "vpc-cni": Identity("aws-node", "AmazonEKS_CNI_Policy"),
    "aws-ebs-csi-driver": Identity(
        "ebs-csi-controller-sa", "service-role/AmazonEBSCSIDriverPolicy"
    ),
    "aws-efs-csi-driver": Identity(
        "efs-csi-controller-sa", "service-role/AmazonEFSCSIDriverPolicy"
    ),
}


def install_for_nodes(site: Site, cluster: eks.Cluster) -> list[pulumi.Resource]:
    """Install what nodes wait for."""
    names = [name for name in site.cluster.addons if name in FOR_NODES]
    return [_install(site, cluster, name, ()) for name in sorted(names)]


def install_others(
    site: Site, cluster: eks.Cluster, nodes: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Install what runs on the system nodes."""
    names = [name for name in site.cluster.addons if name not in FOR_NODES]
    return [_install(site, cluster, name, nodes) for name in sorted(names)]


def _install(
    site: Site, cluster: eks.Cluster, name: str, after: Sequence[pulumi.Resource]
) -> eks.Addon:
    identity = IDENTITIES.get(name)
    role = pod_role(site, name, identity.policy) if identity else None
    associations = None
    if identity and role:
        associations = [
            eks.AddonPodIdentityAssociationArgs(
                service_account=identity.service_account, role_arn=role.arn
            )
        ]
    return eks.Addon(
        site.name(f"addon-{name}"),
        cluster_name=cluster.name,
        addon_name=name,
        addon_version=site.cluster.addons[name],
        pod_identity_associations=associations,
        resolve_conflicts_on_create="OVERWRITE",
        # What somebody set by hand stays, and shows in a refresh.
        resolve_conflicts_on_update="PRESERVE",
        opts=site.options(eks.Addon, depends_on=[*after, *(role.granted if role else ())]),
    )
