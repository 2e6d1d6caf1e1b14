"""Declare a CKS cluster and, once it can be reached, a node pool per rack.

CoreWeave's node pools are Kubernetes objects. They are declared through a kubeconfig
whose path the fleet file names, because what is in it must not get into the state. So
the first `up` makes VPC and cluster, and the second one the racks.

CKS chooses which rack a pool gets. It brings driver, device plugin and network
operator itself: nothing of the GPU operator may be installed beside them.
"""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_coreweave as coreweave
import pulumi_kubernetes as kubernetes

from fleet.clouds.coreweave import SCHEMA, Cluster
from fleet.clouds.promises import Promise, promises_of
from infra.clouds.contract import RACK_LABEL, DeclaredCluster, Place
from infra.clouds.guarded import guarded

_GROUP_VERSION = "compute.coreweave.com/v1alpha1"
_POOL_TYPE = f"kubernetes:{_GROUP_VERSION}:NodePool"
# Sizes that CoreWeave's repairs and an operator's drain change.
_SIZES = ("spec.targetRacks", "spec.targetNodes")
_PREFIXES = ("pods", "services", "load_balancers")


class CoreWeave:
    """The program of CoreWeave."""

    promises: tuple[Promise, ...] = promises_of("coreweave")

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare VPC and cluster; with a kubeconfig, a node pool per rack too."""
        cluster = place.region.cluster
        assert isinstance(cluster, Cluster)  # noqa: S101 - the fleet file was typed by its cloud
        kubeconfig = _kubeconfig(place, cluster)
        provider = coreweave.Provider(f"coreweave-{place.region.name}")
        made = _cluster(place, cluster, _vpc(place, cluster, provider), provider)
        if kubeconfig:
            inside = kubernetes.Provider(
                f"kubernetes-{place.region.name}",
                kubeconfig=str(kubeconfig),
                context=place.region.context,
                # Without it, a kubeconfig at another path would count as another cluster.
                cluster_identifier=place.name,
                opts=pulumi.ResourceOptions(depends_on=[made]),
            )
            _pools(place, cluster, inside)
        return DeclaredCluster(
            cluster_name=made.name,
            endpoint=made.api_server_endpoint.apply(_address),
            ca=None,
            racks={rack.id: rack.id for rack in place.region.racks} if kubeconfig else {},
            kubeconfig_command=(),  # the console and CoreWeave's own tool make one, with a token
        )


def _kubeconfig(place: Place, cluster: Cluster) -> Path | None:
    if cluster.kubeconfig is None:
        return None
    path = place.folder / Path(cluster.kubeconfig).expanduser()
    if not path.is_file():
        raise pulumi.RunError(
            f"region {place.region.name}: cluster.kubeconfig: {path} is not a file. "
            "Fetch a kubeconfig of the cluster, and write it there."
        )
    return path.resolve()


def _vpc(place: Place, cluster: Cluster, provider: coreweave.Provider) -> coreweave.NetworkingVpc:
    return coreweave.NetworkingVpc(
        place.name,
        name=place.name,
        zone=cluster.zone,
        host_prefix=cluster.network.hosts,
        vpc_prefixes=[
            coreweave.NetworkingVpcVpcPrefixArgs(
                name=name.replace("_", "-"), value=getattr(cluster.network, name)
            )
            for name in _PREFIXES
        ],
        ingress=coreweave.NetworkingVpcIngressArgs(
            disable_public_services=not cluster.public_services
        ),
        opts=guarded(coreweave.NetworkingVpc, provider),
    )


def _cluster(
    place: Place,
    cluster: Cluster,
    vpc: coreweave.NetworkingVpc,
    provider: coreweave.Provider,
) -> coreweave.CksCluster:
    return coreweave.CksCluster(
        place.name,
        name=place.name,
        zone=cluster.zone,
        version=f"v{place.kubernetes}",
        vpc_id=vpc.id,
        pod_cidr_name="pods",
        service_cidr_name="services",
        internal_lb_cidr_names=["load-balancers"],
        public=cluster.public,
        opts=guarded(coreweave.CksCluster, provider),
    )


def _pools(place: Place, cluster: Cluster, inside: kubernetes.Provider) -> None:
    size: dict[str, object] = (
        {"targetRacks": 1} if cluster.size_in == "racks" else {"targetNodes": place.nodes_per_rack}
    )
    for rack in place.region.racks:
        spec = {
            "instanceType": cluster.instance_type,
            **size,
            "autoscaling": False,
            "nodeLabels": {RACK_LABEL: rack.id},
            "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        }
        _pool(rack.id, spec, _object_labels(place.rack_tags(rack)), inside)
    if nodes := cluster.system_nodes:
        spec = {"instanceType": nodes.instance_type, "targetNodes": nodes.count}
        _pool(str(SCHEMA.system_pool), spec, _object_labels(place.tags), inside)


def _pool(
    name: str, spec: dict[str, object], labels: dict[str, str], inside: kubernetes.Provider
) -> None:
    kubernetes.apiextensions.CustomResource(
        name,
        api_version=_GROUP_VERSION,
        kind="NodePool",
        metadata={"name": name, "labels": labels},
        spec=spec,
        opts=guarded(_POOL_TYPE, inside, ignore=_SIZES),
    )


def _object_labels(tags: dict[str, str]) -> dict[str, str]:
    """Write tags as labels of a Kubernetes object: a prefix takes a slash."""
    return {key.replace(":", ".io/"): value for key, value in tags.items()}


def _address(endpoint: str) -> str:
    return endpoint if endpoint.startswith("https://") else f"https://{endpoint}"


PROGRAM = CoreWeave()
