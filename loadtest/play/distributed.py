"""Direct one test in several Locust processes: the side of the master, which sends nothing.

The master tells each worker what to play (`plan`), waits until all are prepared, and lets them
begin together. Seed and words are the same everywhere; each worker plays its own session numbers,
so that its cache oracle is exact without asking the others, and writes its own files. A worker
that joins later is told how long the test has been on. One that is lost is written down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import gevent
from locust import runners
from locust.rpc import Message
from locust.runners import STATE_SPAWNING, MasterRunner

from fleet.errors import ConfigError, FleetError, LoadError
from loadtest.play.earlier import keep_other_workers
from loadtest.play.numbering import Numbers
from loadtest.play.player import Timer
from loadtest.play.worker_link import (
    BEGIN,
    END,
    FAILED,
    HELLO,
    MEMBERS,
    PLAN,
    PREPARED,
    REPORT,
    STAGE,
)
from loadtest.results.workers_file import WorkerEntry, WorkersFile
from loadtest.settings import LoadSettings

logger = logging.getLogger(__name__)

_PREPARATION_S = 900  # as long as the longest request that we wait for
_LIVENESS = runners.HEARTBEAT_LIVENESS
_LOOK_S = 0.1
_GREETING_S = 10.0  # between a worker's connection and its first word
_AHEAD_S = 2.0  # so that all have heard of a new share of arrivals before it counts

Report = Callable[[str, dict[str, Any]], None]


class MasterLink:
    """Tell workers what to play, and hear how it goes."""

    def __init__(self, runner: MasterRunner, hear: Report) -> None:
        self._runner = runner
        self._hear_report = hear
        self._file: WorkersFile | None = None
        self._plan: dict[str, Any] = {}
        self._since: Timer | None = None
        self._is_stopping = False
        self._failure: FleetError | None = None
        self._greeted: set[str] = set()
        self._planned: set[str] = set()
        self._ready: set[str] = set()
        self._late = 0
        self._members: tuple[str, ...] = ()
        for name, listener in (
            (HELLO, self._hello),
            (PREPARED, self._prepared),
            (FAILED, self._failed),
        ):
            runner.register_message(name, listener)
        events: Any = runner.environment.events
        events.worker_report.add_listener(self._report)
        events.test_stopping.add_listener(self._stopping)

    def prepare(self, settings: LoadSettings, run_id: str, changes: dict[str, Any]) -> None:
        """Let all workers prepare; raises FleetError when one cannot."""
        self._file = WorkersFile(run_id=run_id, folder=settings.out_dir)
        self._plan = {"run_id": run_id, "changes": changes | {"run_id": run_id}}
        self._since, self._failure, self._late = None, None, 0
        self._is_stopping = False
        self._planned, self._ready = set(), set()
        self._runner.update_state(STATE_SPAWNING)  # the page shows that something goes on
        runners.HEARTBEAT_LIVENESS = _PREPARATION_S  # a worker that reads traces is not lost
        try:
            self._wait(lambda: set(self._alive()) - self._greeted, _GREETING_S)
            clients = [client_id for client_id in self._alive() if client_id in self._greeted]
            keep_other_workers(settings.out_dir, {self._name(item) for item in clients})
            for index, client_id in enumerate(clients):
                self._send_plan(client_id, Numbers(index=index, count=len(clients)))
            waited = set(clients)
            self._wait(lambda: (waited & set(self._alive())) - self._ready, _PREPARATION_S)
        finally:
            runners.HEARTBEAT_LIVENESS = _LIVENESS
            for client in self._runner.clients.all:
                client.heartbeat = _LIVENESS
        if self._failure is not None:
            raise self._failure
        if not self._ready & set(self._alive()):
            raise LoadError("workers: none is left to play the load. See their logs.")

    def begin(self) -> None:
        """Let all prepared workers begin."""
        self._since = Timer()
        self._members = tuple(item for item in self._alive() if item in self._ready)
        for client_id in self._members:
            self._send_begin(client_id, from_s=0.0)

    def watch(self) -> None:
        """Notice workers that are lost, and those that come back, until the greenlet is killed."""
        while True:
            gevent.sleep(_LOOK_S)
            if self._file is None or self._since is None or self._is_stopping:
                continue
            now_s, alive = self._since.elapsed_s(), self._alive()
            for client_id in set(self._members) - set(alive):
                self._file.lose(client_id, now_s)
                logger.warning("%s was lost. The run goes on without it.", self._name(client_id))
            for client_id in (self._ready & set(alive)) - set(self._members):
                self._file.regain(client_id)
            members = [item for item in alive if item in self._ready]
            if set(members) != set(self._members):
                self._share(members)

    def enter(self, stage: str) -> None:
        """Stamp what all send from now on."""
        self._runner.send_message(STAGE, {"stage": stage})

    def end(self) -> None:
        """End the run on workers that Locust's own stop did not reach, and close the books."""
        if self._file is not None:
            self._runner.send_message(END, {"run_id": self._file.run_id})
            self._file.finish(0.0 if self._since is None else self._since.elapsed_s())
        self._file, self._since = None, None

    @property
    def size(self) -> int:
        """Count the workers that take part."""
        return len(self._members) or len(self._alive())

    def _wait(self, missing: Callable[[], set[str]], most_s: float) -> None:
        timer = Timer()
        while missing() and self._failure is None and timer.elapsed_s() < most_s:
            gevent.sleep(_LOOK_S)

    def _alive(self) -> list[str]:
        clients = self._runner.clients
        alive = [client.id for client in (*clients.ready, *clients.spawning, *clients.running)]
        return sorted(alive, key=self._index)

    def _index(self, client_id: str) -> int:
        return int(self._runner.get_worker_index(client_id))  # type: ignore[no-untyped-call]

    def _name(self, client_id: str) -> str:
        return f"worker-{self._index(client_id)}"

    def _send_plan(self, client_id: str, numbers: Numbers) -> None:
        if self._file is None:
            return
        index = self._index(client_id)
        joined_s = 0.0 if self._since is None else round(self._since.elapsed_s(), 3)
        self._planned.add(client_id)
        self._file.join(WorkerEntry(index=index, client_id=client_id, joined_s=joined_s))
        plan = self._plan | {"index": numbers.index, "count": numbers.count}
        self._runner.send_message(PLAN, plan, client_id)

    def _send_begin(self, client_id: str, from_s: float) -> None:
        if self._since is not None:
            begin = {
                "run_id": self._plan["run_id"],
                "elapsed_s": self._since.elapsed_s(),
                "members": self._members,
                "from_s": from_s,
            }
            self._runner.send_message(BEGIN, begin, client_id)

    def _share(self, members: list[str]) -> float:
        """Share arrivals anew, from a moment on by which all have heard of it; give that moment."""
        self._members = tuple(members)
        from_s = 0.0 if self._since is None else self._since.elapsed_s() + _AHEAD_S
        self._runner.send_message(MEMBERS, {"members": self._members, "from_s": from_s})
        return from_s

    def _hello(self, msg: Message, **_: Any) -> None:
        self._greeted.add(msg.node_id)
        if self._since is not None and not self._is_stopping and msg.node_id not in self._planned:
            self._late += 1
            self._send_plan(msg.node_id, Numbers.late(self._late))

    def _prepared(self, msg: Message, **_: Any) -> None:
        if msg.data["run_id"] != self._plan["run_id"]:
            return
        self._ready.add(msg.node_id)
        if self._since is not None:  # it joined later
            self._send_begin(msg.node_id, from_s=self._share([*self._members, msg.node_id]))

    def _failed(self, msg: Message, **_: Any) -> None:
        if msg.data["run_id"] != self._plan["run_id"]:
            return
        name = self._name(msg.node_id)
        if self._since is not None:
            logger.error("%s joined and cannot take part: %s", name, msg.data["what"])
            return
        kind = ConfigError if msg.data["exit_code"] == ConfigError.exit_code else LoadError
        self._failure = kind(f"{name}: {msg.data['what']}")

    def _stopping(self, **_: Any) -> None:
        self._is_stopping = True

    def _report(self, client_id: str, data: dict[str, Any]) -> None:
        if client_id not in self._runner.worker_indexes:
            # It belonged to a master that is gone: it ends, and keeps what it wrote.
            quit_now = Message("quit", None, client_id)  # type: ignore[no-untyped-call]
            self._runner.server.send_to_client(quit_now)
            return
        report = data.get(REPORT, {})
        if report.get("figures") and report.get("run_id") == self._plan.get("run_id"):
            self._hear_report(self._name(client_id), report)
