"""Say on how many nodes of a region's racks weights are whole, as the nodes' labels have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.errors import FleetError
from fleet.load import Fleet
from fleet.weights.needs import WeightSet
from infra.provision.ground import kubeconfig_with
from infra.rollout.cluster import RACK_LABEL, Cluster
from infra.staging import LABEL_PREFIX, LABEL_VALUE

Labels = Mapping[str, Mapping[str, str]]  # of nodes, by their names


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesStatus:
    """The nodes of a region that hold a revision."""

    ready: int
    total: int  # nodes that carry the label of one of the region's racks
    waiting: tuple[str, ...]  # without it, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """What can be read of a fleet's nodes from this machine."""

    fleet: Fleet
    kubeconfigs: tuple[Path, ...]
    read: Callable[[Cluster], Labels] = field(default=Cluster.node_labels)

    def of(self, region: str) -> Labels | str:
        """Read the labels of a region's nodes, or say why they cannot be read."""
        if self.fleet.spec.weights_stage is None:
            return "without weights_stage nobody labels nodes"
        context = next(one.context for one in self.fleet.spec.regions if one.name == region)
        file = kubeconfig_with(self.kubeconfigs, context)
        if file is None:
            wanted = f"the context {context}" if context else "a cluster"
            return f"no kubeconfig here has {wanted}. Give --kubeconfig FILE"
        cluster = Cluster(
            region=region,
            kubeconfig=file,
            context=context,
            namespace=self.fleet.spec.namespace,
            go_on="k3fleet weights status",
        )
        try:
            return self.read(cluster)
        except FleetError as error:
            return str(error).rstrip(".")


def nodes_status(labels: Labels, racks: Iterable[str], weights: WeightSet) -> NodesStatus:
    """Count the nodes of racks that hold a revision; the stage labels no node that does not."""
    wanted = set(racks)
    own = {name: each for name, each in labels.items() if each.get(RACK_LABEL) in wanted}
    label = LABEL_PREFIX + weights.revision
    waiting = sorted(name for name, each in own.items() if each.get(label) != LABEL_VALUE)
    return NodesStatus(ready=len(own) - len(waiting), total=len(own), waiting=tuple(waiting))
