"""Direct the load over time: end it in time, follow stages, search the limit.

Runs in the process that decides, which is the master, or the only one. Locust asks a shape for the
number of users; the shape here says what the director wants at the moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import gevent
from locust import LoadTestShape
from locust.env import Environment

from loadtest.play.player import Timer
from loadtest.play.search import Found, Next, SearchOptions, Trial, judge_trial, next_trial
from loadtest.play.stages import level_at, stage_at
from loadtest.results.search_file import write_search
from loadtest.settings import LoadSettings
from loadtest.web.board import Board

logger = logging.getLogger(__name__)

_MARGIN_S = 0.2  # so that no worker's clock is short of the asked time
_LOOK_S = 0.2
_MOST_SPAWNED_PER_S = 100.0  # Locust warns above it


class DirectedShape(LoadTestShape):
    """Tell Locust how many users there should be now."""

    abstract = True  # Locust must not pick it up by itself

    def __init__(self, director: Director) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._director = director

    def tick(self) -> tuple[int, float] | None:
        """Give users and spawn rate; None ends the test."""
        return self._director.wanted()


@dataclass(slots=True, kw_only=True)
class Director:
    """Decide what happens when in one test."""

    settings: LoadSettings
    board: Board
    enter: Callable[[str], None]
    """Stamps what is sent from now on."""
    slots: Callable[[], int]
    """Counts processes that play."""
    report_delay_s: float = 0.0
    """How long figures take to come from those processes."""
    _since: Timer | None = None
    _users: int = 1
    _is_over: bool = False
    planned_users: int | None = None
    """Set by whoever changes the number of users while the test runs."""
    trials: list[Trial] = field(default_factory=list)
    found: Found | None = None

    @property
    def needs_shape(self) -> bool:
        """Tell whether the number of users changes by itself."""
        return bool(self.settings.stages) or self.settings.search is not None

    def begin(self, environment: Environment) -> list[gevent.Greenlet]:
        """Let the time run; gives what has to be killed at the end."""
        self._since = Timer()
        if self.settings.search is not None:
            return [gevent.spawn(self._search, environment, self.settings.search)]
        return []

    def remaining_s(self) -> float | None:
        """Tell when the load is over, None when it ends by itself."""
        planned_s = self.settings.planned_s
        return None if planned_s is None else planned_s + _MARGIN_S

    def wanted(self) -> tuple[int, float] | None:
        """Give users and spawn rate for now; None when the test is over."""
        if self._is_over:
            return None
        settings = self.settings
        if settings.search is not None:
            return self._users if self._since else settings.search.start, settings.spawn_per_s
        at_s = 0.0 if self._since is None else self._since.elapsed_s()
        level, stage = level_at(settings.stages, at_s), stage_at(settings.stages, at_s)
        if level is None or stage is None:
            return None if at_s > (self.remaining_s() or 0.0) else self._last()
        if settings.is_open_loop:
            users, per_s = self.slots(), settings.spawn_per_s
        else:
            start, end = stage.level
            users = round(level)
            per_s = max(settings.spawn_per_s, 1.5 * abs(end - start) / stage.duration_s)
        # Locust begins a test of no users again and again.
        self._users = max(users, 1 if self._since is None else 0)
        return self._users, min(per_s, _MOST_SPAWNED_PER_S)

    def offered_users(self) -> int | None:
        """Tell how many users there should be now; None in open loop."""
        if self.settings.is_open_loop:
            return None
        if self.needs_shape:
            return self._users
        return self.planned_users or self.settings.planned_users

    def _last(self) -> tuple[int, float]:
        return self._users, self.settings.spawn_per_s

    def _search(self, environment: Environment, options: SearchOptions) -> None:
        while isinstance(step := next_trial(self.trials, options), Next):
            self._users = step.users
            name = f"search-{len(self.trials) + 1}-{step.users}"
            logger.info("search: %d users (%s)", step.users, step.why)
            self.enter(f"{name}-settle")
            self._wait_for_users(environment, step.users)
            gevent.sleep(options.settle_s)
            self.enter(name)
            gevent.sleep(self.report_delay_s)
            trial = self._measure(step.users, options)
            self.trials.append(trial)
            self.board.show_trials(self.trials)
            logger.info("search: %d users are %s: %s", trial.users, trial.outcome, trial.why)
        self.found = step
        self.board.show_trials(self.trials, step)
        write_search(self.settings.out_dir, self.trials, step)
        logger.info("search: at most %s users. %s", step.users, step.why)
        self._is_over = True

    def _measure(self, users: int, options: SearchOptions) -> Trial:
        self.board.begin_trial()
        gevent.sleep(options.measure_s)
        return judge_trial(users, self.board.trial_figures(), options)

    def _wait_for_users(self, environment: Environment, users: int) -> None:
        timer, most_s = Timer(), 30.0 + users / self.settings.spawn_per_s
        while environment.runner is not None and timer.elapsed_s() < most_s:
            if environment.runner.user_count == users:
                return
            gevent.sleep(_LOOK_S)
