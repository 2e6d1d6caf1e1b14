"""Name what all resources of one OKE region share."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_oci as oci

from fleet.clouds.oci import Cluster
from infra.clouds.contract import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One region's place in Oracle's cloud."""

    place: Place
    cluster: Cluster
    provider: oci.Provider
    home: oci.Provider  # of the tenancy's home region, where IAM is written
