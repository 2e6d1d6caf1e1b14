"""Entry file for Locust: agentic coding traffic against the gateways of a fleet.

By hand, with the web page on http://127.0.0.1:8089:

    locust -f loadtest/locustfiles/agentic.py --web-host 127.0.0.1 --settings settings.json

With --processes, or --master and --worker, the load is spread over several processes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:  # Locust puts this file's folder first on sys.path, not the project's
    sys.path.append(ROOT)

import locust  # noqa: E402
from locust.argument_parser import LocustArgumentParser  # noqa: E402
from locust.env import Environment  # noqa: E402

from fleet.errors import ConfigError, FleetError  # noqa: E402
from loadtest.play.agents import CodingAgentUser  # noqa: E402
from loadtest.play.load_test import LoadTest, option, refuse  # noqa: E402
from loadtest.play.open_loop import ArrivalUser  # noqa: E402
from loadtest.settings import LoadSettings, read_settings  # noqa: E402
from loadtest.web.form import add_fields, shown_by  # noqa: E402

__all__ = ["ArrivalUser", "CodingAgentUser"]

SETTINGS_VARIABLE = "K3FLEET_LOADTEST_SETTINGS"

tests: list[LoadTest] = []
shown: dict[str, str] = {}


def add_options(parser: LocustArgumentParser) -> None:
    """Add the settings file and what may differ from it; keep the web page on loopback."""
    # When a worker is lost, the others play its agents.
    parser.set_defaults(web_host="127.0.0.1", enable_rebalancing=True)
    for name, metavar, default, text in (
        (
            "settings",
            "FILE",
            os.environ.get(SETTINGS_VARIABLE, ""),
            f"Settings of the load test, JSON. Default: ${SETTINGS_VARIABLE}.",
        ),
        ("web-password-file", "FILE", "", "File with the password that --web-login asks for."),
    ):
        parser.add_argument(
            f"--{name}",
            dest="k3_settings" if name == "settings" else name.replace("-", "_"),
            metavar=metavar,
            default=default,
            help=text,
            include_in_web_ui=False,
        )
    add_fields(parser, shown)


def prepare(environment: Environment, **_: Any) -> None:
    """Read the settings, find the other processes, and show the page."""

    def read() -> LoadSettings:
        return read_named_settings(environment)

    try:
        settings = read()
        tests.append(LoadTest(environment, read))
    except FleetError as error:
        refuse(error)
    shown.update(shown_by(settings))
    environment.available_user_classes = None


def read_named_settings(environment: Environment) -> LoadSettings:
    """Read the settings file that the command line or the environment names."""
    name = option(environment, "k3_settings")
    if not name:
        raise ConfigError(
            f"--settings: no file given. Give one, or set {SETTINGS_VARIABLE}; "
            "`k3fleet lab up` prints a ready one."
        )
    return read_settings(Path(name))


def start(**_: Any) -> None:
    """Begin a test; a worker that joins late may be told so before it is prepared."""
    for test in tests:
        test.start()


def stopping(**_: Any) -> None:
    """Make no more arrivals: users are about to be stopped."""
    for test in tests:
        test.player.stopping()


def finish(**_: Any) -> None:
    """End a test."""
    for test in tests:
        test.finish()


hooks: Any = locust.events
hooks.init_command_line_parser.add_listener(add_options)
hooks.init.add_listener(prepare)
hooks.test_start.add_listener(start)
hooks.test_stopping.add_listener(stopping)
hooks.test_stop.add_listener(finish)
