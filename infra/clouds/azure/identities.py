"""Declare the identities of an AKS cluster, with no more rights than they use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization, managedidentity, network

from fleet.clouds.azure import Rack
from infra.clouds.azure.site import Site
from infra.clouds.guarded import guarded

# Ids of built-in roles, the same in all tenants
# (learn.microsoft.com/azure/role-based-access-control/built-in-roles).
_NETWORK_CONTRIBUTOR = "4d97b98b-1d4f-4787-a291-c67834d212e7"
_MANAGED_IDENTITY_OPERATOR = "f1a07417-d97a-45cb-824c-7a7467783830"
_CONTRIBUTOR = "b24988ac-6180-42a0-ab88-20f7382dd24c"
_KEY_VAULT_CRYPTO_USER = "12338af0-0e69-4776-bea7-57ae8d297424"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Who the control plane is, and who the kubelets are."""

    control_plane: managedidentity.UserAssignedIdentity
    kubelet: managedidentity.UserAssignedIdentity
    rights: tuple[authorization.RoleAssignment, ...]  # without them no cluster can be made


def declare_identities(site: Site, subnet: network.Subnet) -> Identities:
    """Declare both identities, and give the control plane its rights."""
    control_plane, kubelet = (_identity(site, part) for part in ("control-plane", "kubelet"))
    wanted: list[tuple[str, str, pulumi.Input[str]]] = [
        ("subnet", _NETWORK_CONTRIBUTOR, subnet.id),
        ("kubelet", _MANAGED_IDENTITY_OPERATOR, kubelet.id),
    ]
    if site.cluster.secrets_key:
        wanted.append(("vault", _KEY_VAULT_CRYPTO_USER, site.cluster.secrets_key.vault))
    # AKS associates a pool with a reservation group only with this role on the group's folder.
    wanted += [(name, _CONTRIBUTOR, scope) for name, scope in _reserved(site)]
    return Identities(
        control_plane=control_plane,
        kubelet=kubelet,
        rights=tuple(
            _right(site, control_plane, name, role, scope) for name, role, scope in wanted
        ),
    )


def _reserved(site: Site) -> Iterable[tuple[str, str]]:
    """Give each resource group that holds reservations once: Azure refuses a right given twice."""
    groups = {
        rack.capacity.resource_group.lower(): rack.capacity.resource_group
        for rack in site.place.region.racks
        if isinstance(rack.capacity, Rack)
    }
    return [(name.rpartition("/")[2], groups[name]) for name in sorted(groups)]


def _identity(site: Site, part: str) -> managedidentity.UserAssignedIdentity:
    return managedidentity.UserAssignedIdentity(
        f"{site.place.name}-{part}",
        resource_name_=f"{site.place.name}-{part}",
        resource_group_name=site.group,
        location=site.cluster.location,
        tags=site.place.tags,
        opts=guarded(managedidentity.UserAssignedIdentity, site.provider),
    )


def _right(
    site: Site,
    identity: managedidentity.UserAssignedIdentity,
    name: str,
    role: str,
    scope: pulumi.Input[str],
) -> authorization.RoleAssignment:
    roles = f"/subscriptions/{site.cluster.subscription}/providers/Microsoft.Authorization"
    return authorization.RoleAssignment(
        f"{site.place.name}-{name}",
        principal_id=identity.principal_id,
        principal_type="ServicePrincipal",
        role_definition_id=f"{roles}/roleDefinitions/{role}",
        scope=scope,
        opts=guarded(authorization.RoleAssignment, site.provider),
    )
