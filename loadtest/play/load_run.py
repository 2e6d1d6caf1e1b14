"""Prepare one run: traffic, prompt frame, oracle and recorder; free of Locust."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter

import gevent

from fleet.errors import LoadError
from loadtest.cache.oracle import CacheOracle
from loadtest.client.chat import Chat, make_chat
from loadtest.client.model_check import check_models
from loadtest.play.arrival_times import rate_per_minute
from loadtest.play.numbering import Numbers
from loadtest.prompt.calibrate import Ask, Echo, read_token_ids
from loadtest.prompt.frames import Asker, Frames
from loadtest.prompt.ledgers import Ledgers
from loadtest.prompt.prompts import Message, ToolSet
from loadtest.prompt.words import Vocabulary, read_vocabulary
from loadtest.replay.formats import load_traces
from loadtest.replay.reading import Rules
from loadtest.replay.token_count import token_counter
from loadtest.replay.traces import Craft, TraceTraffic
from loadtest.results.recorder import Clock, Recorder
from loadtest.results.records import Record
from loadtest.settings import LoadSettings
from loadtest.traffic.profiles import load_profile, require_fit
from loadtest.traffic.sessions import ProfileTraffic, Scale, Seeds, Traffic

_BREATH_S = 1e-6
"""Not 0: gevent runs what has no wait at all before it looks at timers and sockets again."""

Listener = Callable[[Record, int], None]
"""Told of each record and how many bytes its answer had."""


@dataclass(slots=True, kw_only=True)
class LoadRun:
    """Hold what all sessions of a run share."""

    chat: Chat
    traffic: Traffic
    ledgers: Ledgers
    oracle: CacheOracle
    recorder: Recorder
    listeners: list[Listener] = field(default_factory=list)
    numbers: Numbers = field(default_factory=Numbers)
    _numbered: int = 0

    @property
    def settings(self) -> LoadSettings:
        """Give the settings of the run."""
        return self.chat.settings

    def next_session_number(self) -> int | None:
        """Number the sessions that this process plays; None when all of them were given out."""
        if self.is_given_out:
            return None
        number = self._next_number
        self._numbered += 1
        return number

    @property
    def is_given_out(self) -> bool:
        """Tell whether this process has no more sessions to begin; no other process plays them."""
        most = self.traffic.most_sessions
        return most is not None and self._next_number >= most

    @property
    def _next_number(self) -> int:
        return self.numbers.index + self._numbered * self.numbers.count


def make_run(settings: LoadSettings, *, clock: Clock = perf_counter) -> LoadRun:
    """Read the traffic, learn the frame from the targets, warm what many sessions share.

    Raises ConfigError for bad input and LoadError when no target answers.
    """
    started_at = datetime.now(UTC)
    seeds = Seeds(seed=settings.seed, salt=settings.run_id or f"{started_at:%m%d%H%M%S}")
    vocabulary = read_vocabulary(settings.tokenizer_dir)
    traffic = make_traffic(settings, vocabulary, seeds)
    chat = make_chat(settings, clock)
    check_models(chat)
    vocabulary.breathe = breathe
    run = LoadRun(
        chat=chat,
        traffic=traffic,
        ledgers=Ledgers(
            frames=_frames(chat, vocabulary, seeds.words("calibration")),
            block_size=settings.block_size,
            encode=chat.api.fragment,
            breathe=breathe,
        ),
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
    if settings.trace_source is not None:
        rules = Rules(options=settings.replay, count=token_counter(settings.tokenizer_dir))
        craft = Craft(vocabulary=vocabulary, scale=scale, seeds=seeds)
        traces = load_traces(settings.trace_source, rules)
        traffic = TraceTraffic(traces, craft, settings.replay)
        if settings.is_open_loop:
            rate_per_minute(settings, traffic.arrivals)  # refuses recordings without start times
        return traffic
    profile = load_profile(settings.traffic)
    require_fit(profile, scale, settings.max_context)
    return ProfileTraffic(profile, vocabulary, scale, seeds, settings.harness)


def breathe() -> None:
    """Let other sessions run in the middle of long work."""
    gevent.sleep(_BREATH_S)


def _frames(chat: Chat, vocabulary: Vocabulary, rng: random.Random) -> Frames:
    """Learn the frame now, so that a server that cannot be used ends the test before it starts."""
    frames = Frames(ask=_asker(chat), vocabulary=vocabulary, rng=rng)
    frames.frame()
    return frames


def _asker(chat: Chat) -> Asker:
    def asker(tools: ToolSet | None) -> Ask:
        return lambda messages: _ask_anywhere(chat, messages, tools)

    return asker


def _ask_anywhere(chat: Chat, messages: Sequence[Message], tools: ToolSet | None) -> Echo:
    """Ask the first target that answers: a dead region must not hide the others."""
    failures: list[str] = []
    best = chat.for_calibration()
    for region, url in chat.settings.targets.items():
        for way in [best] if best is chat else [best, chat]:
            try:
                return _ask(way, region, messages, tools)
            except LoadError as error:
                failures.append(f"targets.{region}: {url}: {error}")
    raise LoadError("\n".join(dict.fromkeys(failures)))


def _ask(chat: Chat, region: str, messages: Sequence[Message], tools: ToolSet | None) -> Echo:
    with closing(chat.connect(region)) as connection:
        reply = chat.fetch(connection, chat.body(messages, 1, ["token_ids"], tools))
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


def _warm(run: LoadRun, region: str, probe: Message) -> None:
    """Send each shared prefix once to a region: a fleet in use has it, so it is attainable."""
    with closing(run.chat.connect(region)) as connection:
        for tools, message in openings(run.traffic):
            messages = [message, probe]
            run.ledgers.share(tools, message)
            prompt = run.ledgers.open(tools, messages).advance(messages)
            run.oracle.send(region, prompt)
            reply = run.chat.fetch(connection, run.chat.body(messages, 1, tools=tools))
            if reply.error is None:
                run.oracle.complete(region, prompt, reply.prefill_worker or reply.worker)


def openings(traffic: Traffic) -> Iterator[tuple[ToolSet | None, Message]]:
    """Give the system prompts to be warmed, each with the tools that are declared with it."""
    declared = {id(prefix.system): prefix.tools for prefix in traffic.prefixes()}
    for message in traffic.shared():
        yield declared.get(id(message)), message
