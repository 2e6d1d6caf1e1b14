"""Name what all resources of one AKS region share."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_azure_native as azure

from fleet.clouds.azure import Cluster
from infra.clouds.contract import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One region's place in Azure."""

    place: Place
    cluster: Cluster
    provider: azure.Provider
    group: pulumi.Output[str]  # name of the resource group
