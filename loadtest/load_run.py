"""Prepare one run: traffic, prompt frame, oracle and recorder; free of Locust."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter

from fleet.errors import LoadError
from loadtest.calibrate import Echo, learn_frame, read_token_ids
from loadtest.chat import Chat, make_chat
from loadtest.oracle import CacheOracle
from loadtest.profiles import load_profile
from loadtest.prompts import Frame, Message, Prompt, make_prompt
from loadtest.recorder import Clock, Recorder
from loadtest.recordings import load_traces
from loadtest.records import Record
from loadtest.settings import LoadSettings
from loadtest.traces import TraceTraffic
from loadtest.traffic import ProfileTraffic, Scale, Seeds, Traffic
from loadtest.wire import Connection
from loadtest.words import Vocabulary, read_vocabulary

Listener = Callable[[Record, int], None]
"""Told of each record and how many bytes its answer had."""


@dataclass(slots=True, kw_only=True)
class LoadRun:
    """Hold what all sessions of a run share."""

    chat: Chat
    traffic: Traffic
    frame: Frame
    oracle: CacheOracle
    recorder: Recorder
    listeners: list[Listener] = field(default_factory=list)
    process_index: int = 0
    process_count: int = 1
    """This process plays the sessions process_index, + process_count, + 2 * process_count…"""
    _numbered: int = 0

    @property
    def settings(self) -> LoadSettings:
        """Give the settings of the run."""
        return self.chat.settings

    def next_session_number(self) -> int:
        """Number the sessions that this process plays; no other process plays them."""
        number = self.process_index + self._numbered * self.process_count
        self._numbered += 1
        return number

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """Render a conversation to what the cache sees of it."""
        return make_prompt(self.frame.tokens(messages), self.settings.block_size)


def make_run(settings: LoadSettings, *, clock: Clock = perf_counter) -> LoadRun:
    """Read the traffic, learn the frame from the targets, warm what many sessions share.

    Raises ConfigError for bad input and LoadError when no target answers.
    """
    started_at = datetime.now(UTC)
    seeds = Seeds(seed=settings.seed, salt=settings.run_id or f"{started_at:%m%d%H%M%S}")
    vocabulary = read_vocabulary(settings.tokenizer_dir)
    traffic = make_traffic(settings, vocabulary, seeds)
    chat = make_chat(settings, clock)
    run = LoadRun(
        chat=chat,
        traffic=traffic,
        frame=_frame(chat, vocabulary, seeds.words("calibration")),
        oracle=CacheOracle(settings.block_size, settings.oracle, clock),
        recorder=Recorder(settings=settings, clock=clock, started_at=datetime.now(UTC)),
    )
    probe = Message(role="user", content=vocabulary.draw(seeds.words("warm"), 1))
    for region in settings.targets:
        _warm(run, region, probe)
    run.recorder.restart()
    return run


def make_traffic(settings: LoadSettings, vocabulary: Vocabulary, seeds: Seeds) -> Traffic:
    """Read the profile or the recordings that settings name; raises ConfigError."""
    scale = Scale(tokens=settings.token_scale, time=settings.time_scale)
    if settings.trace_path is not None:
        return TraceTraffic(load_traces(settings.trace_path), vocabulary, scale, seeds)
    return ProfileTraffic(load_profile(settings.traffic), vocabulary, scale, seeds)


def _frame(chat: Chat, vocabulary: Vocabulary, rng: random.Random) -> Frame:
    """Learn from the first target that answers: a dead region must not hide the others."""
    failures: list[str] = []
    for region, url in chat.settings.targets.items():
        connection = chat.connect(region)
        try:
            return learn_frame(_asker(chat, connection), vocabulary, rng)
        except LoadError as error:
            failures.append(f"targets.{region}: {url}: {error}")
        finally:
            connection.close()
    raise LoadError("\n".join(failures))


def _asker(chat: Chat, connection: Connection) -> Callable[[Sequence[Message]], Echo]:
    def ask(messages: Sequence[Message]) -> Echo:
        reply = chat.fetch(connection, chat.body(messages, 1, ["token_ids"]))
        if reply.error is not None or reply.usage is None:
            raise LoadError(
                f"{reply.error} (HTTP {reply.status}): {reply.error_detail}. "
                "Start the fleet first, or check the URL, the model name and the key."
            )
        named = [event.comment for event in reply.events if event.name == "token_ids"]
        return Echo(
            prompt_tokens=int(reply.usage["prompt_tokens"]),
            token_ids=read_token_ids(named[0]) if named and named[0] else None,
        )

    return ask


def _warm(run: LoadRun, region: str, probe: Message) -> None:
    """Send each shared prefix once to a region: a fleet in use has it, so it is attainable."""
    connection = run.chat.connect(region)
    for message in run.traffic.shared():
        prompt = run.prompt([message, probe])
        run.oracle.send(region, prompt)
        reply = run.chat.fetch(connection, run.chat.body([message, probe], 1))
        if reply.error is None:
            run.oracle.complete(region, prompt, reply.prefill_worker or reply.worker)
    connection.close()
