"""Play what a master says, in one of several Locust processes: the side of a worker."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import gevent
from locust import runners
from locust.rpc import Message
from locust.runners import WorkerRunner

from fleet.errors import FleetError
from loadtest.play.mishaps import told
from loadtest.play.numbering import Numbers
from loadtest.play.player import Player, Timer
from loadtest.settings import LoadSettings, change_settings

logger = logging.getLogger(__name__)

HELLO, PLAN, PREPARED, FAILED = "k3_hello", "k3_plan", "k3_prepared", "k3_failed"
BEGIN, MEMBERS, STAGE, END = "k3_begin", "k3_members", "k3_stage", "k3_end"
REPORT = "k3fleet"  # our part of what a worker reports to its master

# While a worker reads traces and warms shared prefixes it may not hear its master. As long as the
# longest request that we wait for.
_PREPARATION_S = 900
_SILENCE_S = 60  # Locust's own: then a worker whose master is gone ends, and writes its results
_TIMEOUT = "MASTER_HEARTBEAT_TIMEOUT"  # of Locust's module


class WorkerLink:
    """Do what the master says."""

    def __init__(
        self, runner: WorkerRunner, player: Player, own_settings: Callable[[], LoadSettings]
    ) -> None:
        self._runner = runner
        self._player = player
        self._own_settings = own_settings
        self._run_id = ""
        self._patience_s = _SILENCE_S
        for name, listener, concurrent in (
            (PLAN, self._plan, True),
            (BEGIN, self._begin, False),
            (MEMBERS, self._members, False),
            (STAGE, self._stage, False),
            (END, self._end, True),
        ):
            runner.register_message(name, listener, concurrent)
        events: Any = runner.environment.events
        events.report_to_master.add_listener(self._tell)
        events.heartbeat_received.add_listener(self._heard)
        self._silence = Timer()
        # Locust measures the silence of a master by the time of day, which may be set meanwhile.
        vars(runners)[_TIMEOUT] = math.inf
        gevent.spawn(self._watch_master)
        runner.send_message(HELLO)

    def _heard(self, **_: Any) -> None:
        self._silence = Timer()
        # Locust drops what a master says after its clock went back. The connection keeps order.
        self._runner.last_received_spawn_timestamp = 0

    def _watch_master(self) -> None:
        while self._silence.elapsed_s() < self._patience_s:
            gevent.sleep(1.0)
        logger.error("The master has said nothing for %d s. This worker ends.", self._patience_s)
        self._runner.quit()

    def _plan(self, msg: Message, **_: Any) -> None:
        data = msg.data
        heard = Timer()
        self._run_id = data["run_id"]
        self._patience_s = _PREPARATION_S
        try:
            with told("preparation"):
                self._player.end()
                numbers = Numbers(index=data["index"], count=data["count"])
                self._player.prepare(self._settings(data), numbers, self._runner.client_id)
        except FleetError as error:
            self._player.give_up()
            said = {"run_id": self._run_id, "what": str(error), "exit_code": error.exit_code}
            self._runner.send_message(FAILED, said)
            return
        finally:
            self._patience_s, self._silence = _SILENCE_S, Timer()
        prepared = {"run_id": self._run_id, "took_s": heard.elapsed_s()}
        self._runner.send_message(PREPARED, prepared)

    def _settings(self, data: dict[str, Any]) -> LoadSettings:
        own = self._own_settings()
        changes = data["changes"] | {"out_dir": own.out_dir / f"worker-{self._runner.worker_index}"}
        return change_settings(own, changes, "what the master says")

    def _begin(self, msg: Message, **_: Any) -> None:
        if msg.data["run_id"] == self._run_id:
            self._player.begin(msg.data["elapsed_s"])
            self._player.share(msg.data["members"], msg.data["from_s"])

    def _members(self, msg: Message, **_: Any) -> None:
        self._player.share(msg.data["members"], msg.data["from_s"])

    def _stage(self, msg: Message, **_: Any) -> None:
        self._player.enter(msg.data["stage"])

    def _end(self, msg: Message, **_: Any) -> None:
        if msg.data["run_id"] == self._run_id:
            self._player.end()

    def _tell(self, client_id: str, data: dict[str, Any]) -> None:
        data[REPORT] = self._player.report() | {"run_id": self._run_id}
