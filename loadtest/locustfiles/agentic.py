"""Entry file for Locust: agentic coding traffic against the gateways of a fleet.

By hand, with the web page on http://127.0.0.1:8089:

    locust -f loadtest/locustfiles/agentic.py --web-host 127.0.0.1 --settings settings.json

With --processes, or --master and --worker, the agents are spread over several processes.
"""

from __future__ import annotations

import gc
import os
import sys
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any, NoReturn

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:  # Locust puts this file's folder first on sys.path, not the project's
    sys.path.append(ROOT)

import gevent  # noqa: E402
import locust  # noqa: E402
from locust.argument_parser import LocustArgumentParser  # noqa: E402
from locust.env import Environment  # noqa: E402

from fleet.errors import ConfigError, FleetError  # noqa: E402
from loadtest.agents import (  # noqa: E402
    ArrivalUser,
    CodingAgentUser,
    CurrentRun,
    report_to_locust,
    watch_lag,
)
from loadtest.cache_tab import CacheTab  # noqa: E402
from loadtest.distributed import (  # noqa: E402
    be_patient,
    check_distribution,
    is_master,
    is_worker,
    own_part,
    share_cache_figures,
)
from loadtest.load_run import make_run  # noqa: E402
from loadtest.server_watch import ServerWatch, watch_servers  # noqa: E402
from loadtest.settings import LoadSettings, read_settings  # noqa: E402

__all__ = ["ArrivalUser", "CodingAgentUser"]

SETTINGS_VARIABLE = "K3FLEET_LOADTEST_SETTINGS"

cache_tab = CacheTab()
watchers: list[Any] = []
server_watches: list[ServerWatch] = []


def add_options(parser: LocustArgumentParser) -> None:
    """Add the one option that names the settings file; keep the web page on loopback."""
    parser.set_defaults(web_host="127.0.0.1")
    parser.add_argument(
        "--settings",
        dest="k3_settings",
        metavar="FILE",
        default=os.environ.get(SETTINGS_VARIABLE, ""),
        help=f"Settings of the load test, JSON. Default: ${SETTINGS_VARIABLE}.",
        include_in_web_ui=False,
    )


def prepare(environment: Environment, **_: Any) -> None:
    """Read the settings, choose closed or open loop, and add the tab to the page."""
    try:
        settings = read_named_settings(environment)
        check_distribution(settings, environment)
    except FleetError as error:
        refuse(error)
    be_patient()
    share_cache_figures(environment, cache_tab)
    if is_master(environment):  # its clock starts when its workers are prepared and all agents play
        events: Any = environment.events
        events.spawning_complete.add_listener(lambda **_: end_in_time(environment, settings))
    prefill(environment, settings)
    closed = settings.users is not None
    environment.user_classes[:] = [CodingAgentUser if closed else ArrivalUser]
    environment.available_user_classes = None
    if environment.web_ui is not None:
        cache_tab.attach(environment.web_ui)


def prefill(environment: Environment, settings: LoadSettings) -> None:
    """Offer the settings in the page's form; what the command line gave stays."""
    if runs_alone(environment):
        return
    offered = {
        "num_users": settings.users or 1,
        "spawn_rate": settings.spawn_per_s,
        "run_time": f"{ceil(settings.duration_s)}s",
    }
    for name, value in offered.items():
        if option(environment, name) is None and environment.web_ui is not None:
            setattr(environment.parsed_options, name, value)
    environment.host = ", ".join(settings.targets.values())


def start(environment: Environment, **_: Any) -> None:
    """Calibrate, warm and open the log; without a target the test ends with our exit code."""
    cache_tab.clear()
    if is_master(environment):
        settings = read_named_settings(environment)
        server_watches.append(watch_servers(settings.results, settings.out_dir))
        return
    try:
        settings = own_part(read_named_settings(environment), environment, datetime.now(UTC))
        run = make_run(settings)
    except FleetError as error:
        CurrentRun.run = None
        if runs_alone(environment) or is_worker(environment):
            refuse(error)
        print(error, file=sys.stderr)  # noqa: T201 - the user at the page sees it in the log tab
        return
    if not is_worker(environment):
        server_watches.append(watch_servers(settings.results, settings.out_dir))
        run.recorder.restart()
    gc.collect()
    gc.freeze()  # recordings live as long as the test: the collector need not walk them again
    run.recorder.on_full = lambda error: give_up(environment, error)
    run.listeners.append(cache_tab.add)
    run.listeners.append(lambda record, size: report_to_locust(environment, record, size))
    watchers.append(watch_lag(run))
    CurrentRun.run = run
    if not is_worker(environment):
        end_in_time(environment, settings)


def end_in_time(environment: Environment, settings: LoadSettings) -> None:
    """End a test that nobody watches after the asked time.

    Not by Locust's own clock: that one also counts the reading of traces and the calibration.
    """
    if runs_alone(environment) and option(environment, "run_time") is None:
        watchers.append(gevent.spawn_later(settings.duration_s, time_is_over, environment))


def finish(environment: Environment, **_: Any) -> None:
    """Write generator.json, also after SIGTERM and Ctrl-C."""
    run, CurrentRun.run = CurrentRun.run, None
    while watchers:
        watchers.pop().kill()
    if run is not None:
        run.recorder.finish()
    while server_watches:
        server_watches.pop().finish()
    quit_after = option(environment, "autoquit")
    if environment.web_ui is not None and quit_after is not None and quit_after >= 0:
        gevent.spawn_later(quit_after, leave, environment)


def runs_alone(environment: Environment) -> bool:
    """Tell whether the test starts and ends by itself, and not by hand on the page."""
    return bool(option(environment, "headless") or option(environment, "autostart"))


def time_is_over(environment: Environment) -> None:
    """Stop after the asked time; without a page that ends the process."""
    runner = environment.runner
    if runner is not None:
        # A greenlet of its own: stopping kills the watchers, and this is one of them.
        gevent.spawn(runner.stop if environment.web_ui is not None else runner.quit)


def give_up(environment: Environment, error: FleetError) -> None:
    """End a run that cannot go on, with the error's exit code; what was written stays."""
    print(f"error: {error}", file=sys.stderr)  # noqa: T201 - stderr is where errors go
    environment.process_exit_code = error.exit_code
    if environment.runner is not None:
        gevent.spawn(environment.runner.quit)


def leave(environment: Environment) -> None:
    """End the process after a stop on the page too; Locust does it only when time is over."""
    if environment.runner is not None and environment.web_ui is not None:
        environment.runner.quit()
        environment.web_ui.stop()  # type: ignore[no-untyped-call]


def read_named_settings(environment: Environment) -> LoadSettings:
    """Read the settings file that the command line or the environment names."""
    name = option(environment, "k3_settings")
    if not name:
        raise ConfigError(
            f"--settings: no file given. Give one, or set {SETTINGS_VARIABLE}; "
            "`k3fleet lab up` prints a ready one."
        )
    return read_settings(Path(name))


def option(environment: Environment, name: str) -> Any:
    """Read one command line option."""
    return getattr(environment.parsed_options, name, None)


def refuse(error: FleetError) -> NoReturn:
    """End the process with the error's exit code, without a traceback."""
    print(f"error: {error}", file=sys.stderr)  # noqa: T201 - stderr is where errors go
    sys.exit(error.exit_code)


hooks: Any = locust.events
hooks.init_command_line_parser.add_listener(add_options)
hooks.init.add_listener(prepare)
hooks.test_start.add_listener(start)
hooks.test_stop.add_listener(finish)
