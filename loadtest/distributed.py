"""Split one test over several Locust processes: a master and workers.

Each worker is a whole generator: its sessions and its words are its own, so its cache oracle
is exact without asking the others, and it writes its own files. The master sends no request; it
says when to start and how many agents each worker plays, and shows the sums on its page.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from locust import runners
from locust.env import Environment
from locust.runners import LocalRunner, MasterRunner, WorkerRunner

from fleet.errors import ConfigError
from loadtest.cache_tab import CacheTab
from loadtest.settings import RUN_ID_MAX, LoadSettings

_REPORT = "k3fleet_cache"  # our part of what a worker tells its master
# While a worker reads traces and warms shared prefixes it does not hear its master, and Locust
# ends it after 60 s of silence. As long as the longest request that we wait for.
_PREPARATION_S = 900


def check_distribution(settings: LoadSettings, environment: Environment) -> None:
    """Refuse what several processes cannot do together; raises ConfigError."""
    if isinstance(environment.runner, LocalRunner) or settings.users is not None:
        return
    raise ConfigError(
        "sessions_per_minute: one process makes all arrivals. "
        "Give users instead, or leave out --master, --worker and --processes."
    )


def be_patient() -> None:
    """Let a worker prepare for longer than Locust waits."""
    runners.MASTER_HEARTBEAT_TIMEOUT = _PREPARATION_S


def is_master(environment: Environment) -> bool:
    """Tell whether this process only directs others."""
    return isinstance(environment.runner, MasterRunner)


def is_worker(environment: Environment) -> bool:
    """Tell whether this process is directed by another."""
    return isinstance(environment.runner, WorkerRunner)


def own_part(settings: LoadSettings, environment: Environment, now: datetime) -> LoadSettings:
    """Give the settings of this process: a worker has its own sessions, words and folder."""
    if not isinstance(environment.runner, WorkerRunner):
        return settings
    name = f"worker-{environment.runner.worker_index}"
    salt = settings.run_id or f"{now:%m%d%H%M%S}"
    return settings.model_copy(
        update={
            "seed": settings.seed + environment.runner.worker_index,
            "run_id": f"{salt[: RUN_ID_MAX - len(name) - 1]}-{name}",
            "out_dir": settings.out_dir / name,
        }
    )


def share_cache_figures(environment: Environment, tab: CacheTab) -> None:
    """Let workers tell the master what its page shows of the caches."""

    def tell(client_id: str, data: dict[str, Any]) -> None:
        data[_REPORT] = tab.take()

    def hear(client_id: str, data: dict[str, Any]) -> None:
        tab.merge(data.get(_REPORT, {}))

    events: Any = environment.events
    if is_worker(environment):
        events.report_to_master.add_listener(tell)
    if is_master(environment):
        events.worker_report.add_listener(hear)
