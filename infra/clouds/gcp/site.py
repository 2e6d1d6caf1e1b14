"""Name what all resources of one GKE region share."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_gcp as gcp

from fleet.clouds.gcp import Cluster
from infra.clouds.contract import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One region's place in Google Cloud."""

    place: Place
    cluster: Cluster
    provider: gcp.Provider
