"""Drive sessions with Locust users: closed loop (N agents) or open loop (sessions per minute).

Locust's own statistics get one `request` event per HTTP call, with the end-to-end time; a failed
call has no time there, so that errors do not make latencies look better. TTFT has a row of its own
that does not enter the totals.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import gevent
from gevent.event import Event
from gevent.pool import Group
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from loadtest.conversation import Conversation
from loadtest.load_run import LoadRun
from loadtest.records import Record
from loadtest.traffic import Step

logger = logging.getLogger(__name__)

STOP_WAIT_S = 8.0
"""How long calls in flight may take to finish when a test stops."""

FAILURE_PAUSE_S = 1.0
"""Pause after a failed call, on top of the session's own: client libraries back off too, and a dead
region must not fill the record with errors because it fails so fast."""

_MOST_EMPTY_SESSIONS = 100
_TICK_S = 0.05
_ARRIVAL_CV = 1.5  # burstiness of session arrivals in production traces (ServeGen)


class CurrentRun:
    """Hand the run that a test start prepared to the users, which Locust creates."""

    run: LoadRun | None = None

    @classmethod
    def get(cls) -> LoadRun:
        """Give the run; a user without one ends at once."""
        if cls.run is None:
            raise StopUser
        return cls.run


class CodingAgentUser(User):
    """Play one session after the other, as fast as answers and pauses allow (closed loop)."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._conversation: Conversation | None = None
        self._step: Step | None = None
        self._due_s = 0.0
        self._pause_s = 0.0

    def on_start(self) -> None:
        """Count the user and plan its first call."""
        run, runner = CurrentRun.get(), self.environment.runner
        if runner is not None:
            run.recorder.most_users = max(run.recorder.most_users, runner.user_count)
        self._plan(run)

    def wait_time(self) -> float:
        """Give the pause that the session makes before its next call."""
        self._due_s = CurrentRun.get().recorder.now_s() + self._pause_s
        return self._pause_s

    @task
    def call(self) -> None:
        """Make the planned call, then plan the next one."""
        run = CurrentRun.get()
        if self._step is None or self._conversation is None:
            return
        if self._due_s:
            run.recorder.lag(run.recorder.now_s() - self._due_s)
        record = self._conversation.call(self._step)
        self._plan(run)
        if record.error is not None:
            self._pause_s += FAILURE_PAUSE_S

    def on_stop(self) -> None:
        """Close the connection."""
        if self._conversation is not None:
            self._conversation.close()

    def _plan(self, run: LoadRun) -> None:
        step = self._conversation.next_step() if self._conversation else None
        for _ in range(_MOST_EMPTY_SESSIONS):
            if step is not None:
                break
            self._conversation = Conversation(run)
            step = self._conversation.next_step()
        else:
            logger.error("max_context: no session fits into it. Raise it, or raise token_scale.")
            raise StopUser
        self._step = step
        self._pause_s = step.gap_s


class ArrivalUser(User):
    """Start sessions at a rate, however slowly the earlier ones are served (open loop)."""

    fixed_count = 1

    def on_start(self) -> None:
        """Plan the first arrival."""
        run = CurrentRun.get()
        self._run = run
        self._rng = random.Random(f"{run.settings.seed}/arrivals")  # noqa: S311 - no secret
        self._stopping = Event()
        self._sessions = Group()
        self._due_s = run.recorder.now_s()

    def wait_time(self) -> float:
        """Give the time to the next arrival: gamma distributed, burstier than Poisson."""
        rate_per_s = (self._run.settings.sessions_per_minute or 60.0) / 60.0
        shape = 1 / _ARRIVAL_CV**2
        self._due_s += self._rng.gammavariate(shape, 1 / (shape * rate_per_s))
        return max(0.0, self._due_s - self._run.recorder.now_s())

    @task
    def arrive(self) -> None:
        """Start one session."""
        self._sessions.spawn(self._play, self._due_s)
        recorder = self._run.recorder
        recorder.most_users = max(recorder.most_users, len(self._sessions))

    def on_stop(self) -> None:
        """Let calls in flight finish for a few seconds."""
        self._stopping.set()
        self._sessions.join(timeout=STOP_WAIT_S)
        self._sessions.kill()

    def _play(self, due_s: float) -> None:
        run = self._run
        conversation = Conversation(run)
        while not self._stopping.is_set() and (step := conversation.next_step()) is not None:
            due_s += step.gap_s
            if self._stopping.wait(max(0.0, due_s - run.recorder.now_s())):
                break
            run.recorder.lag(run.recorder.now_s() - due_s)
            record = conversation.call(step, due_s=due_s)
            due_s = run.recorder.now_s()
            if record.error is not None:
                due_s += FAILURE_PAUSE_S
        conversation.close()


def report_to_locust(environment: Environment, record: Record, received_bytes: int) -> None:
    """Give Locust one event per HTTP call, and TTFT as a row beside the totals."""
    failed = record.error is not None
    fire: Any = environment.events.request.fire
    fire(
        request_type="chat",
        name=record.region,
        response_time=None if failed else record.e2e_s * 1000,
        response_length=received_bytes,
        exception=CallFailed(record) if failed else None,
        context={},
    )
    if record.ttft_s is not None and not failed:
        environment.stats.entries["ttft " + record.region, "chat"].log(
            round(record.ttft_s * 1000), 0
        )


class CallFailed(Exception):  # noqa: N818 - Locust shows the name in its failure table
    """Carry the class of a failed call to Locust's failure table."""

    def __init__(self, record: Record) -> None:
        super().__init__(f"{record.error} (HTTP {record.status})")


def watch_lag(run: LoadRun) -> Any:
    """Measure how late the event loop wakes up, until the greenlet is killed."""

    def tick() -> None:
        while True:
            due_s = run.recorder.now_s() + _TICK_S
            gevent.sleep(_TICK_S)
            run.recorder.lag(run.recorder.now_s() - due_s)

    return gevent.spawn(tick)
