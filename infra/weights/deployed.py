"""Read what is deployed: the serving stacks' outputs, and the records in the regions' clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fleet.errors import ConfigError, FleetError
from fleet.rollout.state import State, read_state
from infra.outputs import ServingOutputs, read_outputs
from infra.provision.ground import FleetStacks
from infra.rollout.cluster import Cluster
from infra.rollout.ledger import Ledger
from infra.rollout.objects import ClusterObjects, Objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What one region says of itself; both are empty for a region that was never brought up."""

    is_up: bool = False  # its stack is in the state that the fleet file names
    releases: frozenset[str] = frozenset()  # ids that its replicas run
    rollouts: Mapping[int, State] = field(default_factory=dict)  # by number, of its cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRegions:
    """The regions of a fleet, as their state and their clusters have them."""

    stacks: FleetStacks
    say: Callable[[str], None]
    objects: Callable[[Cluster], Objects] = field(default=ClusterObjects)

    def read(self, region: str) -> Deployed:
        """Read a region; raise ConfigError where what it runs cannot be established."""
        try:
            outputs = self._outputs(region)
            return Deployed(
                is_up=outputs is not None,
                releases=frozenset(outputs.releases.values()) if outputs else frozenset(),
                rollouts=self._rollouts(region),
            )
        except FleetError as error:
            raise ConfigError(
                f"{region}: which releases it runs cannot be established: {error} Or say which, "
                "with --assume-deployed RELEASE for each. Nothing was deleted."
            ) from error

    def _outputs(self, region: str) -> ServingOutputs | None:
        stack = self.stacks.bare("serving", region)
        if self.stacks.store.exists(stack.name) is False:
            return None
        found = read_outputs("serving", stack.stack, stack.outputs())
        assert isinstance(found, ServingOutputs)  # noqa: S101 - as the layer says
        return found

    def _rollouts(self, region: str) -> Mapping[int, State]:
        """Read what came of the rollouts; none where no kubeconfig here has the cluster."""
        try:
            look = self.stacks.look(region)
        except ConfigError:
            self.say(f"{region}: no kubeconfig has it: rollouts are read from this machine only")
            return {}
        cluster = Cluster(
            region=region,
            kubeconfig=look.kubeconfig,
            context=look.context,
            namespace=self.stacks.fleet.spec.namespace,
            go_on="k3fleet weights gc",
        )
        records = Ledger(self.objects(cluster)).newer({})
        return {n: read_state(list(one.entries)) for n, one in records.items() if one.entries}
