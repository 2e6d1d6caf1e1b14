"""Make the IAM roles of a cluster, each with no more than AWS asks for its part.

Pods never act as their node: instance metadata is one hop away only, and add-ons
that call AWS have roles of their own through Pod Identity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import iam

from infra.clouds.aws.site import Site
from infra.clouds.names import fitted

ROLE_NAME_MAX = 64  # IAM; Pulumi's own naming would end in an error there


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role, and what must outlive whatever uses it."""

    arn: pulumi.Output[str]
    granted: tuple[pulumi.Resource, ...]


# The EKS guide's lists. Nodes neither push images nor hand out addresses: the CNI's role does.
_CONTROL_PLANE = ("AmazonEKSClusterPolicy",)
_NODES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")


def control_plane_role(site: Site) -> Role:
    """Make the role of the control plane."""
    return make_role(site, "control-plane", "eks.amazonaws.com", _CONTROL_PLANE)


def node_role(site: Site) -> Role:
    """Make the role of all nodes."""
    return make_role(site, "nodes", "ec2.amazonaws.com", _NODES)


def pod_role(site: Site, part: str, policy: str) -> Role:
    """Make the role of an add-on's pods."""
    return make_role(site, part, "pods.eks.amazonaws.com", (policy,))


def make_role(site: Site, part: str, service: str, policies: Sequence[str]) -> Role:
    """Make a role that a service of AWS can take, with AWS's own policies."""
    actions = ["sts:AssumeRole"]
    if service == "pods.eks.amazonaws.com":
        actions.append("sts:TagSession")  # Pod Identity says which pod it is
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
    role = iam.Role(
        site.name(f"{part}-role"),
        name=fitted(f"{site.place.name}-{part}", ROLE_NAME_MAX),
        description=f"{part} of {site.place.name}",
        assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        opts=site.options(iam.Role),
    )
    granted = [
        iam.RolePolicyAttachment(
            site.name(f"{part}-{policy.rpartition('/')[2]}"),
            role=role.name,
            policy_arn=f"arn:{partition(site.cluster.region)}:iam::aws:policy/{policy}",
            opts=site.options(iam.RolePolicyAttachment),
        )
        for policy in policies
    ]
    return Role(arn=role.arn, granted=tuple(granted))


def partition(region: str) -> str:
    """Name the part of AWS that a region belongs to, as ARNs do."""
    named = {"cn": "aws-cn", "us-gov": "aws-us-gov"}
    return next((name for start, name in named.items() if region.startswith(f"{start}-")), "aws")
