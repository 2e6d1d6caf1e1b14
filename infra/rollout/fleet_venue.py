"""Let the rollouts of a fleet be driven in its own clusters, with the stacks of `k3fleet up`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ClusterError, ConfigError
from fleet.load import Fleet
from fleet.release import Release
from infra.engine import SYSTEM_PORT
from infra.provision.checks import require_account, require_cluster, turned_replicas
from infra.provision.claim import claimed
from infra.provision.cluster import require_ours
from infra.provision.ground import FleetStacks
from infra.rollout.cluster import Cluster
from infra.rollout.machine import who
from infra.rollout.metrics import PAGE
from infra.rollout.region import Questions
from infra.rollout.stack import deployed_outputs
from infra.settings import Settings
from infra.stacks import StackRunner

_ASKED = 3  # pods of each kind: one of them may just have died


def require_reached(cluster: Cluster) -> None:
    """Raise ClusterError where an API server does not let through to pods that are Ready."""
    if not cluster.may_ask_pods():
        raise ClusterError(
            f"{cluster.region}: {cluster.kubeconfig} may not `create` `pods/proxy` in namespace "
            f"{cluster.namespace}. Have it granted (docs/rollout.md); nothing was touched."
        )
    leaders = [pod for pod in cluster.engines() if pod.leader and pod.ready and pod.address]
    pages = [cluster.endpoint(pod.name, pod.address or "", SYSTEM_PORT) for pod in leaders]
    for group, ports in (("engine", pages), ("frontend", cluster.frontends())):
        if ports and not any(at.page(PAGE) for at in ports[:_ASKED]):
            raise ClusterError(
                f"{cluster.region}: its API server does not get through to {ports[0].pod}, which "
                f"is Ready. Open the {group}s' port to it with a NetworkPolicy (docs/rollout.md)."
            )


def _nothing(_release: Release) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class FleetVenue:
    """The clusters of a fleet file's regions, seen from one working copy."""

    stacks: FleetStacks
    questions: Questions
    hears: Callable[[Release], None] = _nothing  # of a release before it is first applied

    @classmethod
    def of(cls, stacks: FleetStacks, questions: Questions) -> FleetVenue:
        """Find the clusters; raise ClusterError where a namespace is another fleet's.

        A region whose API server is away is no reason not to look at the others.
        """
        for spec in stacks.fleet.spec.regions:
            look = stacks.look(spec.name)
            namespace = stacks.namespace(stacks.runner("serving", spec.name))
            try:
                owner = look.owner(namespace)
            except ClusterError as error:
                stacks.ground.reporter.note(str(error))
                continue
            require_ours(stacks.fleet.spec.name, spec.name, namespace, owner)
        return cls(stacks=stacks, questions=questions)

    @property
    def fleet(self) -> Fleet:
        """The fleet, as its file is here."""
        return self.stacks.fleet

    @property
    def said(self) -> str:
        """Which clusters these are."""
        looks = [self.stacks.look(spec.name) for spec in self.fleet.spec.regions]
        contexts = ", ".join(f"{look.region} in {look.context or '(current)'}" for look in looks)
        files = ", ".join(sorted({str(look.kubeconfig) for look in looks}))
        return f"the clusters of {files}: {contexts}"

    @property
    def home(self) -> Path:
        """The fleet's work folder."""
        return self.stacks.ground.work_dir

    def clusters(self) -> Mapping[str, Cluster]:
        """Give the API servers, through which pods are reached as well."""
        return {spec.name: self._cluster(spec.name) for spec in self.fleet.spec.regions}

    def _cluster(self, region: str) -> Cluster:
        look = self.stacks.look(region)
        return Cluster(
            region=region,
            kubeconfig=look.kubeconfig,
            context=look.context,
            namespace=self.stacks.namespace(self.runner(region)),
        )

    def settings(self, region: str) -> Settings:
        """Read what this working copy tells a stack; without a file of its own, the defaults."""
        told = self.runner(region).settings
        assert isinstance(told, Settings)  # noqa: S101 - the serving layer is in a cluster
        return told

    def runner(self, region: str) -> StackRunner:
        """Give the stack as `k3fleet up` has it."""
        return self.stacks.runner("serving", region)

    def require_right(self, region: str) -> None:
        """Raise an error unless account and cluster are the stack's, and it is what is deployed.

        And unless pods are reached: else a canary would be taken away to find that out.
        """
        require_account(self.stacks, region)
        runner = self.runner(region)
        deployed = deployed_outputs(runner)
        require_cluster(self.stacks, runner, deployed)
        turned_replicas(self.stacks, runner, deployed)
        here, there = self.settings(region).options.serial, deployed.serial
        if here < there:
            raise ConfigError(
                f"{runner.stack}: what is assigned here has serial {here}, and {there} is "
                f"deployed. Get what is deployed: k3fleet rollout sync {self.fleet.path}"
            )
        require_reached(self._cluster(region))

    def claimed(self, region: str) -> AbstractContextManager[None]:
        """Keep `k3fleet up` and others of this working copy away from the stack's files."""
        folder = self.stacks.bare("serving", region).folder
        return claimed(folder, "k3fleet rollout", who(), self.stacks.ground.now())

    def announce(self, release: Release, /) -> None:
        """Tell whoever wants to hear."""
        self.hears(release)

    def spoil(self, release: Release, fault: str | None) -> None:
        """Refuse a fault: real engines are what they are."""
        if fault is not None:
            raise ConfigError("--fault: is rehearsed in a lab only. Start one: k3fleet lab up.")

    def note(self, text: str, /) -> None:
        """Say something that has to stay visible."""
        self.stacks.ground.reporter.note(text)
