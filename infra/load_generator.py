"""Put a load generator beside a region: a Locust master with its web page, and workers.

It sends to the region's own gateway, as clients do, but without their network; its master reads
what the frontends count, to cross-check what their answers say. Nothing runs until somebody
presses start on the page, which only `kubectl port-forward` reaches.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from fleet.load import Fleet
from fleet.plan import RegionPlan
from fleet.prefix_reuse import prefix_reuse
from fleet.spec import LoadtestSpec
from infra.secret_references import LOADTEST_KEY_KEY

MASTER, WORKER = "loadtest-master", "loadtest-worker"
ACCOUNT = "loadtest"
# Locust's own default; workers connect there.
MASTER_PORT = 5557
WEB_PORT = 8089

SETTINGS_MOUNT = "/etc/k3fleet/loadtest"
SETTINGS_FILE = "settings.json"
KEY_MOUNT = "/etc/k3fleet/loadtest-key"
RESULTS_MOUNT = "/results"
LOCUSTFILE = "loadtest/locustfiles/agentic.py"  # in the project's folder
# Calls in flight may finish for this long after the end; the users themselves wait as long.
STOP_TIMEOUT_S = 8
USERS_PER_REPLICA = 2
HASH_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Where a region is asked: requests at its gateway, counters at its frontends."""

    namespace: str
    gateway_port: int
    frontend_port: int | None  # None: no frontends

    @property
    def target(self) -> str:
        """Give the URL that requests go to."""
        return f"http://gateway.{self.namespace}.svc.cluster.local:{self.gateway_port}"

    @property
    def pages(self) -> tuple[str, ...]:
        """Name the pages with counters: `dns+` is one for every address behind the name."""
        if self.frontend_port is None:
            return ()
        host = f"frontend.{self.namespace}.svc.cluster.local"
        return (f"dns+http://{host}:{self.frontend_port}/metrics",)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProcess:
    """The master, or the workers."""

    name: str
    replicas: int
    args: tuple[str, ...]
    port: int | None  # that others connect to
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenerator:
    """The generator of one region."""

    image: str
    folder: str
    account: str
    config_map: str
    settings_file: str
    settings: str
    settings_mount: str
    key_secret: str | None  # None: the gateway asks for none
    key_mount: str
    results_claim: str | None
    results_mount: str
    master: LoadProcess
    workers: LoadProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPod:
    """One process of a generator, with what it shares with the others."""

    process: LoadProcess
    generator: LoadGenerator


def load_generator(fleet: Fleet, region: RegionPlan, at: Listeners) -> LoadGenerator | None:
    """Compute the generator of a region; None where the fleet file asks for none."""
    spec = fleet.spec.loadtest
    if spec is None:
        return None
    settings = json.dumps(_settings(fleet, spec, region, at), indent=1) + "\n"
    digest = hashlib.sha256(settings.encode()).hexdigest()[:HASH_DIGITS]
    return LoadGenerator(
        image=spec.image,
        folder=spec.folder,
        account=ACCOUNT,
        config_map=f"loadtest-{digest}",
        settings_file=SETTINGS_FILE,
        settings=settings,
        settings_mount=SETTINGS_MOUNT,
        key_secret=fleet.spec.secrets.loadtest_key,
        key_mount=KEY_MOUNT,
        results_claim=spec.results_claim,
        results_mount=RESULTS_MOUNT,
        master=LoadProcess(
            name=MASTER, replicas=1, args=_master_args(), port=MASTER_PORT, memory="2Gi"
        ),
        workers=LoadProcess(
            # A history of 200K tokens is a megabyte; a worker carries a thousand of them.
            name=WORKER,
            replicas=spec.workers,
            args=_worker_args(),
            port=None,
            memory="4Gi",
        ),
    )


def _settings(
    fleet: Fleet, spec: LoadtestSpec, region: RegionPlan, at: Listeners
) -> dict[str, object]:
    """Write the settings of `loadtest`; a test has its own reader read them.

    Real lengths and pauses: the scales are for a laptop.
    """
    replicas = sum(rack.replicas for rack in region.racks)
    key = (
        {"api_key_file": f"{KEY_MOUNT}/{LOADTEST_KEY_KEY}"}
        if fleet.spec.secrets.loadtest_key
        else {}
    )
    reuse = prefix_reuse(fleet.model, fleet.hardware, fleet.release)
    return {
        **key,
        **({"oracle": asdict(reuse)} if reuse else {}),
        **({"results": {"metrics": {region.name: at.pages}}} if at.pages else {}),
        "targets": {region.name: at.target},
        "model": fleet.model.repo,
        "tokenizer_dir": spec.tokenizer_dir,
        "block_size": fleet.release.block_size,
        "traffic": spec.traffic,
        "users": spec.users or max(1, USERS_PER_REPLICA * replicas),
        "duration_s": spec.duration_s,
        "token_scale": 1.0,
        "time_scale": 1.0,
        "out_dir": f"{RESULTS_MOUNT}/{region.name}",
        "max_context": fleet.model.context_tokens,
    }


def _common_args() -> tuple[str, ...]:
    return ("-f", LOCUSTFILE, "--settings", f"{SETTINGS_MOUNT}/{SETTINGS_FILE}")


def _master_args() -> tuple[str, ...]:
    return (
        *_common_args(),
        "--master",
        *("--master-bind-port", str(MASTER_PORT)),
        # The page has no password, and whoever reaches it can start a load of any size.
        *("--web-host", "127.0.0.1", "--web-port", str(WEB_PORT)),
        *("--stop-timeout", str(STOP_TIMEOUT_S)),
        *("--exit-code-on-error", "0"),
    )


def _worker_args() -> tuple[str, ...]:
    master = ("--master-host", MASTER, "--master-port", str(MASTER_PORT))
    return (*_common_args(), "--worker", *master)
