"""Begin sessions at a rate, however slowly the earlier ones are served (open loop).

Every process walks through all arrivals of the test and makes its own share of them: so the load
is the same whatever the number of processes.
"""

from __future__ import annotations

from itertools import islice

import gevent
from gevent.event import Event
from gevent.pool import Group
from locust import User, task

from loadtest.play.agents import FAILURE_PAUSE_S, STOP_WAIT_S, CurrentRun, Play
from loadtest.play.arrival_times import arrivals
from loadtest.play.conversation import Conversation


class OpenLoop:
    """Make this process's share of the arrivals."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._stopping = Event()
        self._sessions = Group()
        self._is_walked = False
        self._walk = gevent.spawn(self._arrive)

    @property
    def sessions(self) -> int:
        """Count the sessions in play."""
        return len(self._sessions)

    @property
    def is_over(self) -> bool:
        """Tell whether all sessions that the traffic has were played."""
        return self._is_walked and not self._sessions

    def stop(self) -> None:
        """Make no more arrivals, and let calls in flight finish for a few seconds."""
        self._stopping.set()
        self._walk.kill()
        self._sessions.join(timeout=STOP_WAIT_S)
        self._sessions.kill()

    def _arrive(self) -> None:
        run, recorder = self._play.run, self._play.run.recorder
        due = arrivals(run.settings, run.traffic.arrivals)
        for number, due_s in enumerate(islice(due, run.traffic.most_sessions)):
            wait_s = due_s - recorder.now_s()
            if wait_s > 0 and self._stopping.wait(
                wait_s
            ):  # who joins late walks past hours at once
                return
            self._play.arrivals_due = number + 1
            if not self._play.share.is_mine(number, due_s):
                continue
            self._sessions.spawn(self._session, number, due_s)
            recorder.most_users = max(recorder.most_users, len(self._sessions))
        self._is_walked = self._play.arrivals_due == run.traffic.most_sessions

    def _session(self, number: int, due_s: float) -> None:
        run = self._play.run
        conversation = Conversation(run, number)
        while not self._stopping.is_set() and (step := conversation.next_step()) is not None:
            due_s += step.gap_s
            if self._stopping.wait(max(0.0, due_s - run.recorder.now_s())):
                break
            self._play.lag(run.recorder.now_s() - due_s)
            record = conversation.attempt(step, due_s=due_s)
            if record is None:
                break
            due_s = run.recorder.now_s()
            if record.error is not None:
                due_s += FAILURE_PAUSE_S
        conversation.close()


class ArrivalUser(User):
    """Stand for the arrivals in Locust's count of users; the open loop itself makes them."""

    def wait_time(self) -> float:
        """Look every second whether the test goes on."""
        return 1.0

    @task
    def stand(self) -> None:
        """Do nothing, unless there is no run."""
        CurrentRun.get()

    def on_stop(self) -> None:
        """Stop the arrivals with the user, so that Locust waits for calls in flight."""
        play = CurrentRun.play
        if play is not None and play.is_stopping:
            play.stop()
