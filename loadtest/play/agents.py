"""Drive sessions with Locust users: N agents, each after its own answers (closed loop).

Locust's own statistics get one `request` event per HTTP call, with the end-to-end time; a failed
call has no time there, so that errors do not make latencies look better. TTFT has a row of its own
that does not enter the totals.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Protocol

import gevent
from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from loadtest.play.conversation import Conversation
from loadtest.play.load_run import LoadRun
from loadtest.play.numbering import Share
from loadtest.results.histogram import Histogram
from loadtest.results.records import Record
from loadtest.traffic.sessions import Step

logger = logging.getLogger(__name__)

STOP_WAIT_S = 8.0
"""How long calls in flight may take to finish when a test stops."""

FAILURE_PAUSE_S = 1.0
"""Pause after a failed call, on top of the session's own: client libraries back off too, and a dead
region must not fill the record with errors because it fails so fast."""

_MOST_EMPTY_SESSIONS = 100
_TICK_S = 0.05
# A test may read traces and warm shared prefixes for as long as the longest request we wait for.
_PREPARATION_S = 900.0


class Arrivals(Protocol):
    """Begin sessions by themselves: the open loop."""

    @property
    def sessions(self) -> int:
        """Count the sessions in play."""
        ...

    @property
    def is_over(self) -> bool:
        """Tell whether all sessions that the traffic has were played."""
        ...

    def stop(self) -> None:
        """Make no more, and wait for calls in flight."""
        ...


@dataclass(slots=True, kw_only=True)
class Play:
    """Hold what this process does of a run, and how well it keeps up."""

    run: LoadRun
    share: Share
    arrivals: Arrivals | None = None
    arrivals_due: int = 0
    """Sessions of the whole test, of all processes, that should have begun."""
    is_stopping: bool = False
    at_work: set[int] = field(default_factory=set)
    """Users of the closed loop that have a session."""
    lags: Histogram = field(default_factory=Histogram)
    """How late things were since somebody last took it."""
    chunks: int = 0
    """Network reads with tokens so far."""
    ttft: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    """Of each replica, since somebody last took it."""

    def note(self, record: Record) -> None:
        """Count what no other figures hold of a request."""
        self.chunks += record.chunks
        replica = record.prefill_worker or record.worker
        if replica is not None and record.ttft_s is not None and record.error is None:
            histogram = self.ttft.setdefault((record.region, replica), Histogram())
            histogram.add(record.ttft_s * 1000)

    def take_ttft(self) -> list[tuple[str, str, list[int]]]:
        """Give what came of TTFT per replica since the last time."""
        taken, self.ttft = self.ttft, {}
        return [(*replica, histogram.packed()) for replica, histogram in taken.items()]

    def lag(self, late_s: float) -> None:
        """Note how late something happened that had a due time."""
        self.run.recorder.lag(late_s)
        self.lags.add(max(0.0, late_s) * 1000)

    @property
    def is_played_out(self) -> bool:
        """Tell whether nothing is left to play here, and nothing will be."""
        if self.arrivals is not None:
            return self.arrivals.is_over
        return self.run.is_given_out and not self.at_work

    def stop(self) -> None:
        """End the arrivals; safe to call twice."""
        arrivals, self.arrivals = self.arrivals, None
        if arrivals is not None:
            arrivals.stop()


class CurrentRun:
    """Hand what a test start prepared to the users, which Locust creates on its own time."""

    play: Play | None = None
    _known = Event()

    @classmethod
    def begin(cls, play: Play | None) -> None:
        """Let waiting users work; without a run they end."""
        cls.play = play
        cls._known.set()

    @classmethod
    def end(cls) -> Play | None:
        """Take the run away: users that are started now wait for the next."""
        play, cls.play = cls.play, None
        cls._known.clear()
        return play

    @classmethod
    def wait(cls) -> Play | None:
        """Give the run once it has begun; None when there is none."""
        cls._known.wait(_PREPARATION_S)
        return cls.play

    @classmethod
    def get(cls) -> Play:
        """Give the run; a user without one ends at once."""
        play = cls.wait()
        if play is None:
            raise StopUser
        return play


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
        play, runner = CurrentRun.wait(), self.environment.runner
        if play is None or runner is None:
            return
        recorder = play.run.recorder
        recorder.most_users = max(recorder.most_users, runner.user_count)
        self._plan(play)

    def wait_time(self) -> float:
        """Give the pause that the session makes before its next call."""
        self._due_s = CurrentRun.get().run.recorder.now_s() + self._pause_s
        return self._pause_s

    @task
    def call(self) -> None:
        """Make the planned call, then plan the next one."""
        play = CurrentRun.get()
        if self._step is None or self._conversation is None:
            raise StopUser
        if self._due_s:
            play.lag(play.run.recorder.now_s() - self._due_s)
        record = self._conversation.attempt(self._step)
        if record is None:
            self._conversation = None
        self._plan(play)
        if record is None or record.error is not None:
            self._pause_s += FAILURE_PAUSE_S

    def on_stop(self) -> None:
        """Close the connection."""
        if self._conversation is not None:
            self._conversation.close()
        if CurrentRun.play is not None:
            CurrentRun.play.at_work.discard(id(self))

    def _plan(self, play: Play) -> None:
        """Find the next call; without one the user ends."""
        self._step = self._conversation.next_step() if self._conversation else None
        if self._step is None:
            self._step = self._begin_session(play.run)
        if self._step is None:
            play.at_work.discard(id(self))
        else:
            play.at_work.add(id(self))
        self._pause_s = self._step.gap_s if self._step else 0.0

    def _begin_session(self, run: LoadRun) -> Step | None:
        """Give the first step of the next session that has one, None when all were played."""
        for _ in range(_MOST_EMPTY_SESSIONS):
            number = run.next_session_number()
            if number is None:
                return None
            self._conversation = Conversation(run, number)
            if (step := self._conversation.next_step()) is not None:
                return step
        logger.error("max_context: no session fits into it. Raise it, or raise token_scale.")
        return None


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


def watch_lag(play: Play) -> Any:
    """Measure how late the event loop wakes up, until the greenlet is killed."""

    def tick() -> None:
        while True:
            due_s = play.run.recorder.now_s() + _TICK_S
            gevent.sleep(_TICK_S)
            play.lag(play.run.recorder.now_s() - due_s)

    return gevent.spawn(tick)
