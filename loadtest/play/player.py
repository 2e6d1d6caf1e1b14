"""Play the load in one process: prepare a run, begin it, follow its stages, end it.

The processes of a test share the time of its beginning, by their own steady clocks: nobody
compares clocks of two machines, and a clock that is set meanwhile changes nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import gevent
from locust.env import Environment

from fleet.errors import FleetError
from loadtest.play.agents import CurrentRun, Play, report_to_locust, watch_lag
from loadtest.play.earlier import keep_earlier
from loadtest.play.health_probe import HealthProbe
from loadtest.play.load_run import make_run
from loadtest.play.numbering import Numbers, Share
from loadtest.play.open_loop import OpenLoop
from loadtest.play.stages import ends_s
from loadtest.settings import PLAYED_FILE, LoadSettings, write_settings

ALONE = "alone"
"""The name of the only process of a test."""


class Player:
    """Hold this process's part of the test that is on, if any."""

    def __init__(self, environment: Environment, give_up: Callable[[FleetError], None]) -> None:
        self._environment = environment
        self._give_up = give_up
        self._prepared: Play | None = None
        self._probe: HealthProbe | None = None
        self._watchers: list[Any] = []
        self._last: dict[str, Any] = {}

    def prepare(self, settings: LoadSettings, numbers: Numbers, me: str = ALONE) -> None:
        """Calibrate, warm and open the log; raises FleetError when the run cannot be had."""
        keep_earlier(settings.out_dir)
        write_settings(settings, PLAYED_FILE)
        run = make_run(settings)
        run.numbers = numbers
        run.recorder.on_full = self._give_up
        gc.collect()
        gc.freeze()  # recordings live as long as the test: the collector need not walk them again
        play = Play(run=run, share=Share(me))

        def listen(record: Any, size: int) -> None:
            play.note(record)
            report_to_locust(self._environment, record, size)

        run.listeners.append(listen)
        self._prepared = play

    def begin(self, elapsed_s: float = 0.0) -> None:
        """Let the prepared run begin, or have begun some seconds ago."""
        play, self._prepared = self._prepared, None
        if play is None:
            return
        run = play.run
        run.recorder.restart(elapsed_s)
        self._probe = HealthProbe(play)
        self._watchers += [watch_lag(play), gevent.spawn(self._follow_stages, play)]
        if run.settings.is_open_loop:
            play.arrivals = OpenLoop(play)
        CurrentRun.begin(play)

    def give_up(self) -> None:
        """Let users end: this run cannot be had."""
        self._prepared = None
        CurrentRun.begin(None)

    def share(self, members: Sequence[str], from_s: float) -> None:
        """Share arrivals anew from a time on."""
        if CurrentRun.play is not None:
            CurrentRun.play.share.split(members, from_s)

    def enter(self, stage: str) -> None:
        """Stamp records with a stage that somebody else decides."""
        if CurrentRun.play is not None:
            CurrentRun.play.run.recorder.stage = stage

    def stopping(self) -> None:
        """Make no more arrivals; users are about to be stopped."""
        if CurrentRun.play is not None:
            CurrentRun.play.is_stopping = True

    def report(self) -> dict[str, Any]:
        """Give what is new since the last report; empty without a run."""
        play = CurrentRun.play
        if play is None or self._probe is None:
            last, self._last = self._last, {}
            return last
        return {
            "figures": play.run.recorder.figures.delta(),
            "health": self._probe.take(self._users()),
            "ttft": play.take_ttft(),
        }

    def end(self) -> None:
        """Write generator.json; safe to call twice, also after SIGTERM and Ctrl-C."""
        self._prepared = None
        play = CurrentRun.play
        if play is not None:
            play.stop()
            self._last = self.report()
        CurrentRun.end()
        while self._watchers:
            self._watchers.pop().kill()
        if play is not None:
            play.run.recorder.finish()

    def _users(self) -> int:
        runner = self._environment.runner
        return 0 if runner is None else runner.user_count

    def _follow_stages(self, play: Play) -> None:
        recorder = play.run.recorder
        for stage, end_s in ends_s(play.run.settings.stages):
            if recorder.now_s() < end_s:
                recorder.stage = stage.name
                gevent.sleep(max(0.0, end_s - recorder.now_s()))


class Timer:
    """Tell the seconds since a moment, by the steady clock."""

    def __init__(self) -> None:
        self._began_s = perf_counter()

    def elapsed_s(self) -> float:
        """Tell the seconds since this timer was made."""
        return perf_counter() - self._began_s
