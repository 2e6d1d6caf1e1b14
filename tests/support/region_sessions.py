"""Talk to regions in sessions as agents do, and keep who answered and what was cached."""

from __future__ import annotations

import json
import random
import statistics
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from patience import wait_until
from rollout_lab import PATIENCE_S, Lab

EAST, WEST = "east", "west"
FLEET = """\
apiVersion: k3fleet/v1
name: regions
release: vllm-tp8-dcp8
frontends: {replicas: 1}
regions:
  - {name: east, gateway_address: 10.0.0.1:8080, racks: [{id: east-r01, replicas: 1}]}
  - {name: west, gateway_address: 10.0.0.2:8080, racks: [{id: west-r01, replicas: 1}]}
"""
SESSION_HEADER = "X-Dynamo-Session-ID"
ANSWER_TOKENS = 4
STEP_WORDS = 5  # that each step adds to a session
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a session that was answered."""

    session: str
    home: str  # the region whose gateway was asked
    began_s: float
    region: str  # that answered
    prompt_tokens: int
    cached_tokens: int
    ttft_s: float

    @property
    def cold_tokens(self) -> int:
        """Give what a session that was unknown had computed anew; a step of a known one is none."""
        known = self.cached_tokens > self.prompt_tokens / 2
        return 0 if known else self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, kw_only=True)
class Talk:
    """What all sessions share."""

    model: str
    gateways: Mapping[str, str]  # region -> URL
    regions: Mapping[str, str]  # worker id -> region
    words: int  # of a session's first prompt
    pause_s: float  # between two calls of a session
    salt: str = ""  # of the sessions' names and texts: with another one no cache knows them


def talk_in(lab: Lab, words: int, pause_s: float) -> Talk:
    """Ask the gateways of a lab's regions, and know by the worker which region answered."""
    return Talk(
        model=lab.model,
        gateways={name: region["gateway_url"] for name, region in lab.told["regions"].items()},
        regions={worker: c.region for c in lab.clusters for worker in c.workers().values()},
        words=words,
        pause_s=pause_s,
    )


@dataclass
class Sessions:
    """Sessions in threads; each goes on until it is told to stop, also after a fault."""

    talk: Talk
    calls: list[Call] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, counts: Mapping[str, int]) -> Iterator[Sessions]:
        """Keep so many sessions of each region going; the block begins when all were answered."""
        names = [
            (region, f"{region}-{n}{self.talk.salt}")
            for region, count in counts.items()
            for n in range(count)
        ]
        threads = [threading.Thread(target=self._live, args=name, daemon=True) for name in names]
        for thread in threads:
            thread.start()
        try:
            wait_until(
                lambda: all(len(self.latest(home)) == count for home, count in counts.items()),
                "not every session has been answered",
                PATIENCE_S,
            )
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(timeout=TIMEOUT_S)

    def latest(self, home: str) -> dict[str, Call]:
        """Give the latest call of each session of a region."""
        return {call.session: call for call in list(self.calls) if call.home == home}

    def _live(self, home: str, name: str) -> None:
        rng = random.Random(name)  # noqa: S311 - words, not secrets
        history = [{"role": "user", "content": f"{name} {_words(rng, self.talk.words)}"}]
        self._stop.wait(rng.uniform(0, self.talk.pause_s))
        with httpx2.Client(trust_env=False, timeout=TIMEOUT_S) as client:
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    call, said = self._call(client, home, name, history)
                except (httpx2.HTTPError, AssertionError) as error:
                    self.faults.append((began, f"{name}: {error!r}"))
                else:
                    self.calls.append(call)
                    history += [
                        {"role": "assistant", "content": said},
                        {"role": "user", "content": _words(rng, STEP_WORDS)},
                    ]
                self._stop.wait(self.talk.pause_s * rng.uniform(0.8, 1.2))

    def _call(
        self, client: httpx2.Client, home: str, name: str, history: Sequence[Mapping[str, str]]
    ) -> tuple[Call, str]:
        asked = {
            "model": self.talk.model,
            "messages": history,
            "max_tokens": ANSWER_TOKENS,
            "stream": True,
            "stream_options": {"include_usage": True},
            "nvext": {"extra_fields": ["worker_id"]},
        }
        url = f"{self.talk.gateways[home]}/v1/chat/completions"
        began, first, said, worker = time.monotonic(), 0.0, "", ""
        usage: dict[str, Any] = {}
        with client.stream("POST", url, json=asked, headers={SESSION_HEADER: name}) as reply:
            reply.raise_for_status()
            for chunk in _chunks(reply.iter_lines()):
                worker = str(_worker(chunk) or worker)
                usage = chunk.get("usage") or usage
                text = "".join(c["delta"].get("content") or "" for c in chunk.get("choices", ()))
                first = first or (time.monotonic() if text else 0.0)
                said += text
        assert usage, "an answer without its end"
        details = usage.get("prompt_tokens_details") or {}
        return Call(
            session=name,
            home=home,
            began_s=began,
            region=self.talk.regions[worker],
            prompt_tokens=usage["prompt_tokens"],
            cached_tokens=details.get("cached_tokens") or 0,
            ttft_s=first - began,
        ), said


def moves(calls: Iterable[Call], session: str) -> list[str]:
    """Give the regions that answered a session, in order, each stay once."""
    stays: list[str] = []
    for call in sorted(calls, key=lambda call: call.began_s):
        if call.session == session and stays[-1:] != [call.region]:
            stays.append(call.region)
    return stays


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the clients of a region saw in a time."""

    calls: int
    hit: float  # cached of prompt tokens
    cold_tokens: int
    ttft_p50_s: float
    ttft_p95_s: float
    ttft_most_s: float


def seen(calls: Iterable[Call], region: str, begin_s: float, end_s: float) -> Seen:
    """Sum up the calls that a region answered its own sessions in a time."""
    found = [
        call
        for call in calls
        if call.region == call.home == region and begin_s <= call.began_s < end_s
    ]
    assert len(found) > 1, "too little was seen"
    cuts = statistics.quantiles([call.ttft_s for call in found], n=20, method="inclusive")
    return Seen(
        calls=len(found),
        hit=sum(c.cached_tokens for c in found) / sum(c.prompt_tokens for c in found),
        cold_tokens=sum(c.cold_tokens for c in found),
        ttft_p50_s=cuts[9],
        ttft_p95_s=cuts[18],
        ttft_most_s=max(call.ttft_s for call in found),
    )


def busiest(calls: Iterable[Call], region: str, window_s: float, begin_s: float) -> int:
    """Give the most cold tokens that a region was asked for in any window since a moment."""
    found = [(c.began_s, c.cold_tokens) for c in calls if c.region == region]
    return max(
        sum(tokens for at, tokens in found if start <= at < start + window_s)
        for start, _ in found
        if start >= begin_s
    )


def _words(rng: random.Random, count: int) -> str:
    return " ".join("".join(rng.choices(LETTERS, k=5)) for _ in range(count))


def _chunks(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data:") and not line.endswith("[DONE]"):
            yield json.loads(line.removeprefix("data:"))


def _worker(chunk: Mapping[str, Any]) -> int | None:
    found = (chunk.get("nvext") or {}).get("worker_id") or {}
    worker: int | None = found.get("decode_worker_id")
    return worker
