"""Take a cluster that somebody else made: nothing is declared, its outputs are handed on.

Every cloud without a program of its own, and every machine room, is served this
way. Nothing about the racks can be promised from here: `k3fleet racks preflight`
reads it from the nodes.
"""

from __future__ import annotations

from fleet.clouds.existing import Cluster, Rack
from fleet.clouds.promises import Promise, promises_of
from infra.clouds.contract import DeclaredCluster, Place


class Existing:
    """The program that makes nothing."""

    promises: tuple[Promise, ...] = promises_of("existing")

    def declare(self, place: Place) -> DeclaredCluster:
        """Hand on what the fleet file says."""
        region = place.region
        cluster = region.cluster if isinstance(region.cluster, Cluster) else Cluster()
        context = ("--context", region.context) if region.context else ()
        return DeclaredCluster(
            cluster_name=cluster.name or region.name,
            endpoint=cluster.endpoint,
            ca=None,
            racks={
                rack.id: rack.capacity.label_value if isinstance(rack.capacity, Rack) else rack.id
                for rack in region.racks
            },
            # Prints what the operator's own kubeconfig holds.
            kubeconfig_command=(
                *("kubectl", "config", "view", "--minify", "--flatten"),
                *context,
            ),
        )


PROGRAM = Existing()
