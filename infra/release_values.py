"""Compute what all replicas of one release, with one job, share."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.own_settings import names_folder
from fleet.release import Release, Role, release_for
from fleet.release_checks import backend_problem
from fleet.release_set import release_set
from infra.dgd import OperatorValues, operator_leader, operator_values
from infra.engine import SETTINGS_MOUNT, SYSTEM_PORT, EngineRole, engine_env, engine_roles
from infra.kernel_cache import KernelCache, kernel_cache, kernel_cache_env
from infra.options import Options
from infra.staging import node_labels

# Slowest read of the weights that is still a start and not a fault. Measured by others for
# large checkpoints: 0.13 GB/s on an untuned shared file system, 1.9 GB/s on a tuned one. With
# the warm-up below it gives K3 the 120 minutes of the public recipes.
SLOWEST_READ_BYTES_PER_S = 250e6
WARM_UP_S = 960.0  # kernels, graphs and autotuning: minutes, even with local weights
PROBE_PERIOD_S = 10
PROBE_TIMEOUT_S = 10

# Between the last token and the end of the process: unregister 5 s, clean up 30 s, and reserve.
STOP_RESERVE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupProbe:
    """How long an engine may load."""

    period_s: int
    timeout_s: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSource:
    """Where a pod finds the weights: a folder of the node, or one in a claim."""

    claim: str | None
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Files that an engine reads, in a ConfigMap named after their content."""

    config_map: str
    files: Mapping[str, str]
    mount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """What is asked to know whether a leader serves."""

    path: str
    port: str  # a name of `ReleaseValues.ports`


# Annotations of each pod: what is inside its image, whose name need not say it. For the linter.
ENGINE_VERSION = "k3fleet.io/engine-version"
DYNAMO_VERSION = "k3fleet.io/dynamo-version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseValues:
    """What all replicas of one release and job share."""

    id: str
    set: str  # of releases that the same frontends serve
    image: str
    contents: Mapping[str, str]  # annotations that say what is in the image
    nodes: int
    leader: EngineRole
    worker: EngineRole
    env: Mapping[str, str]
    ports: Mapping[str, int]
    health: HealthCheck
    grace_s: int
    startup: StartupProbe
    weights: WeightsSource
    draft: WeightsSource | None
    node_labels: Mapping[str, str]  # of a node that holds both
    kernel_cache: KernelCache | None
    settings: EngineSettings | None
    operator: OperatorValues | None  # None: no operator, backend lws


class Releases:
    """Compute each release once, however many replicas run it."""

    def __init__(self, fleet: Fleet, options: Options, region: str) -> None:
        if options.releases.get(fleet.release_id, fleet.release) != fleet.release:
            raise ConfigError(
                f"{fleet.path}: release: its id {fleet.release_id} is also that of another release "
                "of the stack's configuration. Give one of them another name."
            )
        self._fleet = fleet
        self._options = options
        self._region = region
        self._known: dict[str, Release] = {**options.releases, fleet.release_id: fleet.release}
        self._done: dict[tuple[str, Role], ReleaseValues] = {}

    def of(self, replica: str, role: Role) -> ReleaseValues:
        """Give the values of the release that a replica is assigned to."""
        wanted = self._options.assignment.get(replica, self._fleet.release_id)
        if (wanted, role) not in self._done:
            release = self._find(replica, wanted)
            self._done[wanted, role] = self._compute(wanted, release, role)
        return self._done[wanted, role]

    def fronting(self) -> Fleet:
        """Give the fleet with the release that its frontends and gateway follow."""
        wanted = self._options.shared or self._fleet.release_id
        return replace(self._fleet, release=self._find("shared", wanted), release_id=wanted)

    def namespace(self, release: Release) -> str:
        """Name the Dynamo namespace where engines of a release and their frontends meet."""
        return f"{self._fleet.spec.name}-{self._region}-{release_set(release)}"

    def of_sets(self, replicas: Iterable[str]) -> tuple[Release, ...]:
        """Give one release of each set that replicas run, that of the most replicas first.

        Frontends of a set are those of the release that they are told to follow, or of the fleet
        file's, where it belongs to the set; else of the release of its last replica.
        """
        own = {release_set(r): r for r in (self._fleet.release, self.fronting().release)}
        chosen: dict[str, Release] = {}
        counts: Counter[str] = Counter()
        for name in sorted(replicas):
            identity = self._options.assignment.get(name, self._fleet.release_id)
            release = self._find(name, identity)
            set_ = release_set(release)
            chosen[set_] = own.get(set_, release)
            counts[set_] += 1
        names = sorted(chosen, key=lambda set_: (-counts[set_], set_ not in own, set_))
        return tuple(chosen[set_] for set_ in names) or (self._fleet.release,)

    def _find(self, replica: str, wanted: str) -> Release:
        where = f"assignment: {replica}: release {wanted}"
        if wanted not in self._known:
            known = ", ".join(sorted(self._known))
            raise ConfigError(f"{where} is not known. Use one of: {known}.")
        release = self._known[wanted]
        if found := backend_problem(self._fleet.spec.backend, release):
            raise ConfigError(f"{where}: {found[1]}. {found[2]}.")
        if release.roles != self._fleet.release.roles:
            raise ConfigError(
                f"{where} splits prefill and decode in another way than the fleet's "
                f"{self._fleet.release_id}, so slots would change their job. "
                "Use a release with the same ratio, or another region."
            )
        if release.engine.registers != self._fleet.release.engine.registers:
            raise ConfigError(
                f"{where} and the fleet's {self._fleet.release_id}: one is found by Dynamo "
                "frontends, the other is not, and a region has one way in. "
                "Use releases of one kind, or another region."
            )
        return release

    def _compute(self, identity: str, whole: Release, role: Role) -> ReleaseValues:
        backend = self._fleet.spec.backend
        release = release_for(whole, role)
        leader, worker = engine_roles(
            self._fleet.model, release, role, placed_by_operator=backend == "dgd"
        )
        cache = kernel_cache(self._fleet, release, self._options)
        env = engine_env(
            release, self.namespace(whole), kernel_cache_env(release) if cache else None
        )
        operator = None
        if backend == "dgd":
            operator = operator_values(release, role, env)
            leader, env = operator_leader(release, leader), dict(operator.env)
        ports, health = _health(release)
        draft = release.speculation.revision if release.speculation else None
        return ReleaseValues(
            id=identity,
            set=release_set(whole),
            image=_image(release),
            contents={
                ENGINE_VERSION: release.engine.version,
                DYNAMO_VERSION: release.dynamo.version,
            },
            nodes=release.nodes,
            leader=leader,
            worker=worker,
            env=env,
            ports=ports,
            health=health,
            grace_s=math.ceil(release.drain_s) + STOP_RESERVE_S,
            startup=_startup(self._fleet.model.weights_bytes),
            weights=_weights(release, "weights", release.weights.revision, self._options),
            draft=None if draft is None else _weights(release, "speculation", draft, self._options),
            kernel_cache=cache,
            settings=_settings(leader),
            operator=operator,
            node_labels=node_labels(release, self._fleet, self._options),
        )


def _image(release: Release) -> str:
    if release.engine.image is None:
        raise ConfigError(
            f"release {release.name}: engine.image is missing. "
            "Build the image and give it by digest: repository:tag@sha256:<64 hex digits>."
        )
    return release.engine.image


def _settings(leader: EngineRole) -> EngineSettings | None:
    if not leader.files:
        return None
    digest = hashlib.sha256(json.dumps(leader.files, sort_keys=True).encode()).hexdigest()
    return EngineSettings(
        config_map=f"engine-{digest[:8]}", files=leader.files, mount=SETTINGS_MOUNT
    )


def _health(release: Release) -> tuple[dict[str, int], HealthCheck]:
    custom = release.engine.custom
    if custom is None:
        return {"system": SYSTEM_PORT}, HealthCheck(path="/health", port="system")
    ports = {"http": custom.port}
    if custom.health_port in (None, custom.port):
        return ports, HealthCheck(path=custom.health_path, port="http")
    return {**ports, "system": custom.health_port}, HealthCheck(
        path=custom.health_path, port="system"
    )


def _startup(weights_bytes: int) -> StartupProbe:
    budget_s = weights_bytes / SLOWEST_READ_BYTES_PER_S + WARM_UP_S
    return StartupProbe(
        period_s=PROBE_PERIOD_S,
        timeout_s=PROBE_TIMEOUT_S,
        failures=math.ceil(budget_s / PROBE_PERIOD_S),
    )


def _weights(release: Release, field: str, revision: str, options: Options) -> WeightsSource:
    if not names_folder(revision):
        raise ConfigError(
            f"release {release.name}: {field}.revision: {revision!r} cannot name a folder. "
            "Use letters, digits, dots, dashes and underscores."
        )
    if options.weights_claim is not None:
        return WeightsSource(claim=options.weights_claim, folder=revision)
    return WeightsSource(claim=None, folder=f"{options.weights_dir.rstrip('/')}/{revision}")
