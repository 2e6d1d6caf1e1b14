"""Measure what one more step costs a session that is a million tokens long.

A step adds 10,000 tokens. Ours is the ledger: what is new is tokenised, hashed and encoded, the
rest is kept. The naive way renders, hashes and encodes the whole conversation, as a client does
that keeps a list of messages; its texts are ready as strings and token ids, so that only the
step's own work is timed. The two take turns, and their prompts must agree. Run it with
`python benchmarks/bench_ledger.py`; the ratio is comparable between machines.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import orjson

from loadtest.prompt.api import Wish
from loadtest.prompt.api_chat import ChatApi
from loadtest.prompt.ledger import Ledger
from loadtest.prompt.messages import Message
from loadtest.prompt.prompts import Frame, Prompt, make_prompt
from loadtest.prompt.session_options import SessionOptions
from loadtest.prompt.words import Vocabulary

HISTORY, STEP, MESSAGE, BLOCK = 1_000_000, 10_000, 500, 128  # tokens
STEPS = 15
RATIO_LIMIT = 8.0  # the naive way must cost at least this many times ours
COUNT_LIMIT_MS = 1.0  # count and hash one step of 10,000 tokens

API = ChatApi("kimi-k3", SessionOptions())
WISH = Wish(max_tokens=500)
TAGS = bytes(range(48))  # 12 tokens, as K3 has between two messages


def frame() -> Frame:
    """Make a frame with tags of K3's size."""
    slots = ("start", "system", "user", "reasoning", "content", "end")
    return Frame(between={(a, b): TAGS for a in slots for b in slots}, exact=True)


def turns(vocabulary: Vocabulary, rng: random.Random, tokens: int) -> list[Message]:
    """Make messages that add up to so many tokens, ending with the user's."""
    made: list[Message] = []
    for _ in range(tokens // (2 * MESSAGE)):
        half = vocabulary.draw(rng, MESSAGE // 2)
        made.append(Message(role="assistant", reasoning=half, content=half))
        made.append(Message(role="user", content=vocabulary.draw(rng, MESSAGE)))
    return made


class Naive:
    """Keep strings and token ids, and start from scratch each time."""

    def __init__(self, learned: Frame) -> None:
        self._frame = learned
        self._bodies: list[dict[str, Any]] = []
        self._slots: list[tuple[str, bytes]] = [("start", b"")]

    def add(self, messages: Sequence[Message]) -> None:
        """Take new messages; the conversion is not part of the step."""
        self._bodies += [message.body() for message in messages]
        self._slots += list(self._frame.slots(messages))

    def step(self) -> tuple[Prompt, bytes]:
        """Count, hash and encode everything."""
        parts: list[bytes] = []
        for (before, _), (after, tokens) in pairwise([*self._slots, ("end", b"")]):
            parts += (self._frame.gap(before, after), tokens)
        prompt = make_prompt(b"".join(parts), BLOCK)
        body = {"model": "kimi-k3", "messages": self._bodies, "max_tokens": 500, "stream": True}
        return prompt, orjson.dumps(body)


def main() -> int:
    """Print milliseconds and the ratio; 1 when a limit is passed."""
    rng = random.Random(1)  # noqa: S311 - no secret
    vocabulary = Vocabulary(
        [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(676)], range(676)
    )
    learned = frame()
    opening = [Message(role="user", content=vocabulary.draw(rng, MESSAGE))]
    history = opening + turns(vocabulary, rng, HISTORY)
    counting = Ledger(learned, BLOCK, lambda _: b"")
    whole = Ledger(learned, BLOCK, API.fragment)
    naive = Naive(learned)
    for ledger in (counting, whole):
        ledger.advance(history)
    naive.add(history)
    times: dict[str, list[float]] = {"count": [], "ours": [], "naive": []}
    for _ in range(STEPS):
        new = turns(vocabulary, rng, STEP)
        history = history + new
        naive.add(new)
        marks = [time.process_time()]
        counting.advance(history)
        marks.append(time.process_time())
        prompt = whole.advance(history)
        API.body(history, whole.fragments, WISH)
        marks.append(time.process_time())
        expected, _ = naive.step()
        marks.append(time.process_time())
        assert list(prompt.blocks) == list(expected.blocks)
        for name, (begun, ended) in zip(times, pairwise(marks), strict=True):
            times[name].append((ended - begun) * 1000)
    count, ours, rival = (median(times[name]) for name in ("count", "ours", "naive"))
    ratios = sorted(b / a for a, b in zip(times["ours"], times["naive"], strict=True))
    print(
        f"a step of {STEP:,} tokens on {HISTORY:,}: count and hash {count:.2f} ms, "
        f"with the body {ours:.2f} ms; naive {rival:.1f} ms, {median(ratios):.0f} times ours "
        f"({ratios[0]:.0f} to {ratios[-1]:.0f} in {STEPS} steps; {RATIO_LIMIT:.0f} needed); "
        f"limit of counting {COUNT_LIMIT_MS:.1f} ms; load average {os.getloadavg()[0]:.1f}"
    )
    return int(median(ratios) < RATIO_LIMIT or count > COUNT_LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
