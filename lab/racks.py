"""Find the clusters of a fleet's racks: those of a lab that is up, or those of a kubeconfig."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lightkube import KubeConfig

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.plan import RegionPlan, make_plan
from fleet.racks.differences import Expected
from fleet.rollout.record import Started
from fleet.rollout.state import OVER, read_state
from fleet.rollout.strategy import Strategy
from infra.kubeconfig import FAULTS
from infra.options import Options
from infra.racks.work import RackWork
from infra.rollout.cluster import Cluster
from infra.rollout.lease import Holder, Leases, RegionLease
from infra.rollout.ledger import Ledger
from infra.rollout.machine import TIME, named, waiter, who
from infra.rollout.objects import ClusterObjects
from infra.rollout.process import is_gone, own_process
from infra.rollout.region import SiteRegion
from infra.rollout.rollouts import Rollouts, site_region
from infra.rollout.stack import Stack
from infra.settings import Settings
from infra.stacks import StackRunner
from infra.staging import LABEL_PREFIX, node_labels
from lab.interrupts import interruptible
from lab.questions import engine_questions
from lab.rehearsal import Surroundings
from lab.rollout import LabVenue
from lab.state import lab_is_up

GO_ON = "k3fleet racks list"


@dataclass(frozen=True, kw_only=True)
class RackPlaces:
    """The regions of a fleet, and how each is reached."""

    fleet: Fleet
    around: Surroundings
    clusters: Mapping[str, Cluster]
    lab: Rollouts | None  # None: clusters of a kubeconfig
    plans: Mapping[str, RegionPlan]

    @classmethod
    def of(
        cls, fleet: Fleet, around: Surroundings, *, lab_dir: Path | None, kubeconfig: Path | None
    ) -> RackPlaces:
        """Take the lab that is named or up; with a kubeconfig, or without a lab, real clusters."""
        if lab_dir is not None or (kubeconfig is None and lab_is_up(around.work_dir)):
            lab = Rollouts(venue=LabVenue.of(fleet, around, lab_dir))
            clusters = {name: replace(own, go_on=GO_ON) for name, own in lab.regions.items()}
            return cls.reached(fleet, around, clusters, lab)
        where = kubeconfig or default_kubeconfig(around.environ)
        clusters = {
            spec.name: _cluster(fleet, spec.name, where, spec.context)
            for spec in fleet.spec.regions
        }
        return cls.reached(fleet, around, clusters)

    @classmethod
    def reached(
        cls,
        fleet: Fleet,
        around: Surroundings,
        clusters: Mapping[str, Cluster],
        lab: Rollouts | None = None,
    ) -> RackPlaces:
        """Take clusters that are known, one for each region."""
        plans = {region.name: region for region in make_plan(fleet).regions}
        return cls(fleet=fleet, around=around, clusters=clusters, lab=lab, plans=plans)

    @property
    def said(self) -> str:
        """Say which clusters these are."""
        if self.lab is not None:
            return self.lab.venue.said
        return f"the clusters of {next(iter(self.clusters.values())).kubeconfig}"

    def region_of(self, rack: str) -> str:
        """Find the region of a rack of the fleet file."""
        for name, plan in self.plans.items():
            if any(own.id == rack for own in plan.racks):
                return name
        known = ", ".join(own.id for plan in self.plans.values() for own in plan.racks)
        raise ConfigError(f"rack {rack}: not in {self.fleet.path}. Use one of: {known}.")

    def expected(self, region: str) -> Expected:
        """Say what the fleet file expects of a region."""
        fleet = self.fleet
        labels = node_labels(fleet.release, fleet, Options(bare=self.lab is not None))
        return Expected(
            region=self.plans[region],
            hardware=fleet.hardware,
            weights=frozenset(key.removeprefix(LABEL_PREFIX) for key in labels),
        )

    def require_no_rollout(self, region: str) -> None:
        """Raise ConfigError while a rollout is open: its steps count on every other replica."""
        started, status = self._latest(region)
        if started is None or status in OVER:
            return
        raise ConfigError(
            f"{region}: the rollout to {started.new} is {status}. Finish it first: "
            "k3fleet rollout resume or abort, or k3fleet rollback."
        )

    def work(
        self, rack: str, strategy: Strategy, *, whole: bool, say: Callable[[str], None]
    ) -> RackWork:
        """Give the work on a rack; raise ConfigError where there is no way to do it.

        `whole`: none of the rack is to serve, so only the region's floor is kept.
        """
        self._require_backend()
        site = self.site(self.region_of(rack))
        if wrong := site.wrong_cluster():
            raise ConfigError(f"{wrong}.")
        floor = strategy.floor
        return RackWork(
            region=site,
            rack=rack,
            gpus=self.fleet.hardware.gpus_per_node,
            nodes_per_replica=self.fleet.release.nodes,
            floor=floor.model_copy(update={"rack": 0.0}) if whole else floor,
            deadlines=strategy.deadlines,
            waiter=waiter(lambda: False),  # a signal ends the process, and anybody can go on
            by=f"{who()} {TIME.now().strftime('%Y-%m-%dT%H:%M:%SZ')}",
            say=say,
        )

    @contextmanager
    def held(self, work: RackWork, what: str, *, take_over: bool) -> Iterator[RackWork]:
        """Be the only one who touches a region; give the work with the right to do so."""
        region = work.region.cluster.region
        leases = self.leases(region, f"{what} {work.rack}", work.say)
        with leases.held(take_over=take_over), interruptible():
            self.require_no_rollout(region)  # one may have begun meanwhile
            yield replace(work, require_held=leases.require)

    def _require_backend(self) -> None:
        if self.fleet.spec.backend == "lws" and self.fleet.release.engine.registers:
            return
        raise ConfigError(
            f"{self.fleet.path}: replicas are taken out of work by their LeaderWorkerSet and "
            "their registration at frontends, and this fleet has not both. Use `kubectl cordon`, "
            "and your operator's way of removing a replica."
        )

    def leases(self, region: str, what: str, say: Callable[[str], None]) -> Leases:
        """Give the lease of one region, to hold while it is touched."""
        me = Holder(
            name=named(f"racks {what}"),
            process=own_process(),
            is_gone=is_gone,
        )
        lease = RegionLease(ClusterObjects(self.clusters[region]), me, TIME)
        return Leases({region: lease}, say)

    def site(self, region: str) -> SiteRegion:
        """Give a region as a rollout sees it; its stack is only asked for releases."""
        questions = (
            engine_questions(self.fleet.model.repo, TIME.now)
            if self.lab is None
            else self.lab.venue.questions
        )
        return site_region(self.fleet, self.clusters[region], self._stack(region), questions)

    def _stack(self, region: str) -> Stack:
        if self.lab is not None:
            return self.lab.stack(region, self.lab.sources())
        cluster = self.clusters[region]
        runner = StackRunner(
            layer="serving",
            settings=Settings(fleet=self.fleet.path, region=region, kubeconfig=cluster.kubeconfig),
            work_dir=self.around.work_dir / "pulumi",
            env={},
        )
        started, _ = self._latest(region)
        sources = {} if started is None else started.releases
        return Stack(runner=runner, fleet=self.fleet, sources=sources)

    def _latest(self, region: str) -> tuple[Started | None, str]:
        """Read the region's latest rollout from the record in its cluster."""
        ledger = Ledger(ClusterObjects(self.clusters[region]))
        numbers = ledger.numbers()
        entries = ledger.read(numbers[-1]).entries if numbers else ()
        if not entries:
            return None, ""
        state = read_state(list(entries))
        return state.started, state.status


def default_kubeconfig(environ: Mapping[str, str]) -> Path:
    """Say where kubectl looks: the first file of KUBECONFIG, or the one of the user."""
    given = environ.get("KUBECONFIG", "").split(":")[0]
    return Path(given) if given else Path(environ.get("HOME", "/")) / ".kube" / "config"


def _cluster(fleet: Fleet, region: str, kubeconfig: Path, context: str | None) -> Cluster:
    if not kubeconfig.is_file():
        raise ConfigError(
            f"{kubeconfig}: no such file. Name a kubeconfig with --kubeconfig, or start a lab: "
            f"k3fleet lab up {fleet.path}"
        )
    known: list[str] = []
    # What lightkube raises for a file of another shape.
    with suppress(*FAULTS):
        config = KubeConfig.from_file(kubeconfig)
        known = sorted(config.contexts)
        if config.get(context) is not None:
            return Cluster(
                region=region,
                kubeconfig=kubeconfig,
                context=context,
                namespace=fleet.spec.namespace,
                go_on=GO_ON,
            )
    names = ", ".join(known) or "none"
    raise ConfigError(
        f"region {region}: {kubeconfig} has no context {context or '(current)'}; it has: {names}. "
        "Correct context in the fleet file, or name another file with --kubeconfig."
    )
