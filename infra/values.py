"""Compute what the charts only write down.

Pure: fleet, plan and options come in, values go out. All arithmetic, names and
limits are here; the templates hold the shape of the objects and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.load import Fleet
from fleet.plan import Plan, RackPlan, RegionPlan
from fleet.region_spec import named_region
from fleet.release import Role
from fleet.spec import Backend
from infra import load_generator
from infra.autoscaling import FrontendScaling, frontend_scaling
from infra.engine import DRAFT_MOUNT, SYSTEM_PORT, WEIGHTS_MOUNT
from infra.frontend import FrontendValues, frontend_values
from infra.gateway import GatewayValues, gateway_values
from infra.options import Options
from infra.release_values import Releases, ReleaseValues
from infra.scheduling import SchedulingValues, scheduling_values
from infra.surroundings import Part, platform_surroundings, serving_surroundings

# /dev/shm of an engine, as the public vLLM recipe for K3 on GB300.
SHM_SIZE = "200Gi"

# Who runs here, and whether it needs the API server: Dynamo's discovery does.
_ACCOUNTS = (("engine", True), ("frontend", True), ("gateway", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """An identity; `uses_api` gets a token and the discovery role."""

    name: str
    uses_api: bool
    image_pull: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RackDomain:
    """The NVLink domain of a rack as Kubernetes sees it."""

    name: str
    channel: str  # claim template that the DRA driver makes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformValues:
    """What a region has before any replica runs."""

    fleet: str
    region: str
    namespace: str
    worker_metadata: bool  # bring the kind that Dynamo's discovery writes
    priority_class: str
    service_accounts: tuple[ServiceAccount, ...]
    domains: tuple[RackDomain, ...]
    surroundings: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaValues:
    """One replica in its rack."""

    name: str
    rack: str
    role: Role
    channel: str
    release: ReleaseValues


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetValues:
    """How many engine pods of a rack a drain must leave running."""

    name: str
    rack: str
    min_available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingValues:
    """The replicas of a region, and the way to them."""

    fleet: str
    region: str
    namespace: str
    backend: Backend
    priority_class: str
    arch: str
    gpus_per_node: int
    dra: bool
    discovery_port: int
    weights_mount: str
    draft_mount: str
    shm_size: str
    replicas: tuple[ReplicaValues, ...]
    budgets: tuple[BudgetValues, ...]
    # One for each set of releases that replicas run; none: the engine is no Dynamo worker.
    frontends: tuple[FrontendValues, ...]
    gateway: GatewayValues
    scheduling: SchedulingValues
    scaling: FrontendScaling | None  # None: the Deployments say how many frontends there are
    surroundings: tuple[Part, ...]


def platform_values(fleet: Fleet, region: RegionPlan, options: Options) -> PlatformValues:
    """Compute the platform layer of one region."""
    namespace = options.namespace or fleet.spec.namespace
    return PlatformValues(
        fleet=fleet.spec.name,
        region=region.name,
        namespace=namespace,
        worker_metadata=fleet.spec.backend == "lws" and not options.bare,
        priority_class=_priority_class(namespace),
        service_accounts=tuple(
            ServiceAccount(
                name=name,
                uses_api=uses_api,
                image_pull=None if options.bare else fleet.spec.secrets.image_pull,
            )
            for name, uses_api in _accounts(fleet, options)
        ),
        domains=tuple(
            RackDomain(name=rack.id, channel=_channel(rack.id)) for rack in _by_id(region)
        ),
        surroundings=platform_surroundings(fleet, region, namespace, options),
    )


def serving_values(fleet: Fleet, region: RegionPlan, options: Options) -> ServingValues:
    """Compute the serving layer of one region."""
    namespace = options.namespace or fleet.spec.namespace
    releases = Releases(fleet, options, region.name)
    fronting = releases.fronting()
    frontends = _frontends(fleet, region, releases, options)
    sets = [item.set for item in frontends]
    gateway = gateway_values(fronting, region.name, namespace, sets, options)
    return ServingValues(
        fleet=fleet.spec.name,
        region=region.name,
        namespace=namespace,
        backend=fleet.spec.backend,
        priority_class=_priority_class(namespace),
        arch=fleet.hardware.arch,
        gpus_per_node=fleet.hardware.gpus_per_node,
        dra=options.dra,
        discovery_port=SYSTEM_PORT,
        weights_mount=WEIGHTS_MOUNT,
        draft_mount=DRAFT_MOUNT,
        shm_size=SHM_SIZE,
        replicas=tuple(
            ReplicaValues(
                name=name,
                rack=rack.id,
                role=role,
                channel=_channel(rack.id),
                release=releases.of(name, role),
            )
            for rack in _by_id(region)
            for name, role in zip(rack.replica_names, rack.roles, strict=True)
        ),
        budgets=_budgets(fleet, region),
        frontends=frontends,
        gateway=gateway,
        scheduling=(
            SchedulingValues()
            if options.bare
            else scheduling_values(fleet.spec.scheduling, fleet.spec.backend)
        ),
        scaling=_scaling(fronting, options),
        surroundings=serving_surroundings(fleet, region, namespace, gateway.port, options),
    )


def _frontends(
    fleet: Fleet, region: RegionPlan, releases: Releases, options: Options
) -> tuple[FrontendValues, ...]:
    if not fleet.release.engine.registers:
        return ()
    names = [name for rack in region.racks for name in rack.replica_names]
    return tuple(
        frontend_values(fleet, release, releases.namespace(release), options)
        for release in releases.of_sets(names)
    )


def region_plan(plan: Plan, name: str) -> RegionPlan:
    """Find a region, or say which ones there are."""
    return named_region(plan.regions, name, plan.name)


def assigned_releases(fleet: Fleet, region: RegionPlan, options: Options) -> dict[str, str]:
    """Say which release each replica of a region runs."""
    names = [name for rack in region.racks for name in rack.replica_names]
    return {name: options.assignment.get(name, fleet.release_id) for name in sorted(names)}


def _accounts(fleet: Fleet, options: Options) -> tuple[tuple[str, bool], ...]:
    if fleet.spec.loadtest is None or options.bare:
        return _ACCOUNTS
    return (*_ACCOUNTS, (load_generator.ACCOUNT, False))


def _scaling(fleet: Fleet, options: Options) -> FrontendScaling | None:
    if options.bare or not fleet.release.engine.registers:
        return None
    return frontend_scaling(fleet.spec.frontends.replicas, fleet.release.drain_s)


def _budgets(fleet: Fleet, region: RegionPlan) -> tuple[BudgetValues, ...]:
    """Allow one replica of a rack to be drained; with one replica there is nothing to keep."""
    nodes = fleet.release.nodes
    return tuple(
        BudgetValues(
            name=f"{rack.id}-engines", rack=rack.id, min_available=(rack.replicas - 1) * nodes
        )
        for rack in _by_id(region)
        if rack.replicas > 1
    )


def _by_id(region: RegionPlan) -> tuple[RackPlan, ...]:
    return tuple(sorted(region.racks, key=lambda rack: rack.id))


def _channel(rack: str) -> str:
    return f"{rack}-channel"


def _priority_class(namespace: str) -> str:
    """Name the class after the namespace, because it belongs to the whole cluster."""
    return f"{namespace}-serving"
