"""Run tests in one Locust process, one after the other: alone, as master, or as worker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any, NoReturn

import gevent
from gevent import GreenletExit
from locust.env import Environment
from locust.runners import STATE_RUNNING, STATE_SPAWNING, MasterRunner, WorkerRunner

from fleet.errors import ConfigError, FleetError
from loadtest.judge.gates import DEFAULT_GATES_FILE, load_gates
from loadtest.play.agents import CodingAgentUser
from loadtest.play.director import DirectedShape, Director
from loadtest.play.distributed import MasterLink
from loadtest.play.mishaps import told
from loadtest.play.numbering import Numbers
from loadtest.play.open_loop import ArrivalUser
from loadtest.play.player import ALONE, Player
from loadtest.play.worker_link import WorkerLink
from loadtest.results.server_watch import ServerWatch, watch_servers
from loadtest.settings import PLAYED_FILE, LoadSettings, change_settings, write_settings
from loadtest.web.board import Board
from loadtest.web.form import changes_by
from loadtest.web.login import require_password
from loadtest.web.pages import attach
from loadtest.web.tables import tables

_SAMPLE_S = 3.0  # as often as workers report
_REPORT_DELAY_S = 4.0  # a worker's figures are that old at most
_SHAPE_LATE_S = 15.0  # more than stopping users takes
_LOCAL = "generator"


@dataclass(slots=True)
class LoadTest:
    """Hold what lasts from one test to the next in this process."""

    environment: Environment
    read_settings: Callable[[], LoadSettings]
    board: Board = field(default_factory=Board)
    player: Player = field(init=False)
    master: MasterLink | None = None
    _director: Director | None = None
    _next: tuple[LoadSettings, dict[str, Any]] | None = None
    """The settings of the coming start, as checked, and what differs from the file."""
    _watchers: list[Any] = field(default_factory=list)
    _is_preparing: bool = False
    _servers: ServerWatch | None = None

    def __post_init__(self) -> None:
        """Connect to the other processes, and show the page; raises FleetError."""
        self.player = Player(self.environment, self._give_up)
        settings, runner = self.read_settings(), self.environment.runner
        if isinstance(runner, WorkerRunner):
            self.environment.user_classes[:] = [CodingAgentUser, ArrivalUser]
            WorkerLink(runner, self.player, self.read_settings)
            return
        if isinstance(runner, MasterRunner):
            self.master = MasterLink(runner, self.board.take)
        self.choose(vars(self.environment.parsed_options), is_form=False)
        self.environment.host = ", ".join(settings.targets.values())
        self._prefill(settings)
        if self.environment.web_ui is not None:
            self._show_page(settings)

    def choose(self, options: Mapping[str, Any], *, is_form: bool) -> None:
        """Decide what the next start plays; raises FleetError when that cannot be."""
        settings = self.read_settings()
        changes = changes_by(settings, options, is_form=is_form)
        chosen = change_settings(settings, changes, "options")
        load_gates(chosen.gates_file or DEFAULT_GATES_FILE)
        self._next = (chosen, changes)
        kind = ArrivalUser if chosen.is_open_loop else CodingAgentUser
        self.environment.user_classes[:] = [kind]
        director = self._direct(chosen)
        shape = DirectedShape(director) if director.needs_shape else None
        self.environment.shape_class = shape
        if shape is not None:
            shape.runner = self.environment.runner
        self._director = director

    def start(self) -> None:
        """Prepare and begin; a failure ends the start, with our exit code or said on the page."""
        if isinstance(self.environment.runner, WorkerRunner):
            return  # its master says when
        if self._next is None:
            self.choose(vars(self.environment.parsed_options), is_form=False)
        (settings, changes), self._next = self._next or (self.read_settings(), {}), None
        director = self._director or self._direct(settings)
        self.board.clear(settings.results)
        self._is_preparing = True
        try:
            # To the microsecond: the second of two quick starts must find nothing in a cache.
            run_id = settings.run_id or f"{datetime.now(UTC):%m%d%H%M%S%f}"
            with told("preparation"):
                self._prepare(settings, changes, run_id)
            with told("start"):
                self._begin(settings, director)
        except FleetError as error:
            self._fail(error)
        finally:
            self._is_preparing = False

    def _begin(self, settings: LoadSettings, director: Director) -> None:
        self._servers = watch_servers(settings.results, settings.out_dir)
        self.board.pages = self._servers.pages
        if self.master is not None:
            self.master.begin()
            self._watchers.append(gevent.spawn(self.master.watch))
        else:
            self.player.begin()
            self.player.share((ALONE,), 0.0)
        self._watchers += director.begin(self.environment)
        self._watchers.append(gevent.spawn(self._sample, director))
        self._end_in_time(director)

    def finish(self) -> None:
        """Write generator.json, also after SIGTERM and Ctrl-C."""
        while self._watchers:
            self._watchers.pop().kill(block=False)
        self.player.end()
        if isinstance(self.environment.runner, WorkerRunner):
            return
        servers, self._servers = self._servers, None
        if servers is not None:
            servers.finish()
        if self.master is not None:
            self.master.end()
        self.board.take(_LOCAL, self.player.report())
        self._next = None
        quit_after = option(self.environment, "autoquit")
        if self.environment.web_ui is not None and quit_after is not None and quit_after >= 0:
            gevent.spawn_later(quit_after, leave, self.environment)

    def _prepare(self, settings: LoadSettings, changes: dict[str, Any], run_id: str) -> None:
        settings = change_settings(settings, {"run_id": run_id}, "options")
        if self.master is None:
            self.player.prepare(settings, Numbers())
            return
        write_settings(settings, PLAYED_FILE)
        self.master.prepare(settings, run_id, changes)

    def _fail(self, error: FleetError) -> NoReturn:
        self.player.give_up()
        self.board.problem = str(error)
        runner = self.environment.runner
        alone = runs_alone(self.environment)
        if self.master is None and alone:
            refuse(error)
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the log tab of the page shows it
        if runner is not None:
            if alone:
                self.environment.process_exit_code = error.exit_code
            # Greenlets of their own: both end the one that starts the test, which is this.
            gevent.spawn(self._leave if alone else runner.stop)
        raise GreenletExit

    def _give_up(self, error: FleetError) -> None:
        """End a run that cannot go on, with the error's exit code; what was written stays."""
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - stderr is where errors go
        self.environment.process_exit_code = error.exit_code
        if self.environment.runner is not None:
            gevent.spawn(self.environment.runner.quit)

    def _leave(self) -> None:
        runner, web_ui = self.environment.runner, self.environment.web_ui
        if runner is not None:
            runner.quit()
        if web_ui is not None:
            web_ui.stop()  # type: ignore[no-untyped-call]

    def _direct(self, settings: LoadSettings) -> Director:
        master = self.master
        return Director(
            settings=settings,
            board=self.board,
            enter=self.player.enter if master is None else master.enter,
            slots=lambda: 1 if master is None else max(1, master.size),
            report_delay_s=0.0 if master is None else _REPORT_DELAY_S,
        )

    def _sample(self, director: Director) -> None:
        while True:
            gevent.sleep(_SAMPLE_S)
            if self.master is None:
                self.board.take(_LOCAL, self.player.report())
            self.board.sample(director.offered_users())
            if self.board.is_played_out(director.slots()):
                time_is_over(self.environment)
                return

    def _end_in_time(self, director: Director) -> None:
        """End a test that nobody watches after the asked time.

        Not by Locust's own clock: that one also counts the reading of traces and the calibration.
        """
        remaining_s = director.remaining_s()
        asked = runs_alone(self.environment) and option(self.environment, "run_time") is None
        if remaining_s is not None and (asked or director.needs_shape):
            # A shape ends by itself, unless the time of day went back while Locust looked at it.
            late_s = _SHAPE_LATE_S if director.needs_shape else 0.0
            ending = gevent.spawn_later(remaining_s + late_s, time_is_over, self.environment)
            self._watchers.append(ending)

    def _show_page(self, settings: LoadSettings) -> None:
        web_ui = self.environment.web_ui
        if web_ui is None:
            return
        if web_ui.web_login:
            name = option(self.environment, "web_password_file")
            require_password(web_ui, Path(name) if name else None)
        gates = load_gates(settings.gates_file or DEFAULT_GATES_FILE)
        shown = tables(self.board, gates, self._offered)
        attach(web_ui, self.board, shown, self._check_form)

    def _check_form(self, form: Mapping[str, str]) -> None:
        """Take what the form says: a start, or another number of users for what is running."""
        if self._is_preparing:
            raise ConfigError("start: the last one is still preparing. Wait, or stop it.")
        runner, director = self.environment.runner, self._director
        if runner is None or runner.state not in {STATE_SPAWNING, STATE_RUNNING}:
            self.choose(_typed(form), is_form=True)
        elif director is not None:
            if director.needs_shape or director.settings.is_open_loop:
                raise ConfigError("users: this load says itself how many. Stop the test first.")
            director.planned_users = _typed(form)["num_users"]

    def _offered(self) -> float | None:
        return None if self._director is None else self._director.offered_users()

    def _prefill(self, settings: LoadSettings) -> None:
        """Take users and times from the settings; what the command line gave stays."""
        offered: dict[str, Any] = {
            "num_users": settings.planned_users,
            "spawn_rate": settings.spawn_per_s,
        }
        if not runs_alone(self.environment):  # in the form; alone, we end it in time ourselves
            planned_s = settings.planned_s
            timed = planned_s is not None and not settings.stages
            offered["run_time"] = f"{ceil(planned_s or 0)}s" if timed else None
        for name, value in offered.items():
            if option(self.environment, name) is None:
                setattr(self.environment.parsed_options, name, value)


def _typed(form: Mapping[str, str]) -> dict[str, Any]:
    """Give what a form says as Locust's options would hold it."""
    options: dict[str, Any] = dict(form)
    options["search_limit"] = form.get("search_limit") == "true"
    users = form.get("user_count", "")
    options["num_users"] = int(users) if users.isdecimal() else 0
    return options


def runs_alone(environment: Environment) -> bool:
    """Tell whether the test starts and ends by itself, and not by hand on the page."""
    return bool(option(environment, "headless") or option(environment, "autostart"))


def time_is_over(environment: Environment) -> None:
    """Stop after the asked time; without a page that ends the process."""
    runner = environment.runner
    if runner is not None:
        # A greenlet of its own: stopping kills the watchers, and this is one of them.
        gevent.spawn(runner.stop if environment.web_ui is not None else runner.quit)


def leave(environment: Environment) -> None:
    """End the process after a stop on the page too; Locust does it only when time is over."""
    if environment.runner is not None and environment.web_ui is not None:
        environment.runner.quit()
        environment.web_ui.stop()  # type: ignore[no-untyped-call]


def option(environment: Environment, name: str) -> Any:
    """Read one command line option."""
    return getattr(environment.parsed_options, name, None)


def refuse(error: FleetError) -> NoReturn:
    """End the process with the error's exit code, without a traceback."""
    print(f"error: {error}", file=sys.stderr)  # noqa: T201 - stderr is where errors go
    sys.exit(error.exit_code)
