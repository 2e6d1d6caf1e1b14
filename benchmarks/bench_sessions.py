"""Measure the memory of 1,000 sessions with histories of 200,000 tokens in one process.

Each session has messages, its ledger and the fragments of its next body, as it has between two
steps. The rival holds what a client holds that keeps a list of messages and the token ids of each:
text as a string, ids four bytes wide. Each side is measured in a process of its own; the rival
builds fewer sessions and is compared per session. Run it with
`python benchmarks/bench_sessions.py`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import Any

import psutil

from loadtest.prompt.api_chat import ChatApi
from loadtest.prompt.frames import Frames
from loadtest.prompt.ledgers import Ledgers
from loadtest.prompt.messages import Message
from loadtest.prompt.prompts import Frame
from loadtest.prompt.session_options import SessionOptions
from loadtest.prompt.words import Vocabulary

SESSIONS, RIVALS, HISTORY, SHARED, MESSAGE, BLOCK = 1_000, 100, 200_000, 25_000, 1_000, 128
LIMIT_GIB = 4.0
WORDS = 6_000


def words() -> Vocabulary:
    """Make words as long as those of K3's vocabulary: 3 to 11 letters."""
    rng = random.Random(1)  # noqa: S311 - no secret
    made = {
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 11)))
        for _ in range(WORDS)
    }
    return Vocabulary(sorted(made), range(len(made)))


def turns(vocabulary: Vocabulary, rng: random.Random) -> list[Message]:
    """Make the private part of a history."""
    made = [Message(role="user", content=vocabulary.draw(rng, MESSAGE))]
    for _ in range((HISTORY - SHARED) // (2 * MESSAGE)):
        half = vocabulary.draw(rng, MESSAGE // 2), vocabulary.draw(rng, MESSAGE // 2)
        made.append(Message(role="assistant", reasoning=half[0], content=half[1]))
        made.append(Message(role="user", content=vocabulary.draw(rng, MESSAGE)))
    return made


def rss_bytes() -> int:
    """Read the resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def ours(vocabulary: Vocabulary, system: Message, rng: random.Random, count: int) -> list[Any]:
    """Open the ledgers of so many sessions."""
    slots = ("start", "system", "user", "reasoning", "content", "end")
    frame = Frame(between={(a, b): bytes(48) for a in slots for b in slots}, exact=True)
    frames = Frames(ask=lambda _: lambda _: None, vocabulary=vocabulary, rng=rng)  # type: ignore[arg-type,return-value]
    frames._plain = frame
    api = ChatApi("kimi-k3", SessionOptions())
    ledgers = Ledgers(frames=frames, block_size=BLOCK, encode=api.fragment)
    ledgers.share(None, system)
    held: list[Any] = []
    for _ in range(count):
        messages = (system, *turns(vocabulary, rng))
        ledger = ledgers.open(None, messages)
        ledger.advance(messages)
        held.append((messages, ledger))
    return held


def rival(vocabulary: Vocabulary, system: Message, rng: random.Random, count: int) -> list[Any]:
    """Keep strings and token ids of so many sessions."""
    del system  # one for all, as ours
    return [
        [
            [(text.text, text.tokens) for text in (message.reasoning, message.content)]
            for message in turns(vocabulary, rng)
        ]
        for _ in range(count)
    ]


def child(name: str) -> None:
    """Build one side; print bytes per session and seconds."""
    vocabulary, rng = words(), random.Random(2)  # noqa: S311 - no secret
    system = Message(role="system", content=vocabulary.draw(rng, SHARED))
    count = SESSIONS if name == "ours" else RIVALS
    build = ours if name == "ours" else rival
    before, begun_s = rss_bytes(), time.perf_counter()
    held = build(vocabulary, system, rng, count)
    after = rss_bytes()
    print((after - before) / len(held), time.perf_counter() - begun_s, after)


def main() -> int:
    """Print both sides; 1 when ours is above the limit."""
    figures: dict[str, list[float]] = {}
    for name in ("ours", "rival"):
        command = [sys.executable, __file__, name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures[name] = [float(part) for part in done.stdout.split()]
    each, seconds, total = figures["ours"]
    print(
        f"{SESSIONS:,} sessions of {HISTORY:,} tokens: {total / 2**30:.2f} GiB in all "
        f"(limit {LIMIT_GIB:g}), {each / 1e6:.2f} MB a session, built in {seconds:.0f} s; strings "
        f"and token ids alone {figures['rival'][0] / 1e6:.2f} MB a session, "
        f"{figures['rival'][0] / each:.2f} times ours"
    )
    return int(total > LIMIT_GIB * 2**30)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name]:
            child(name)
        case _:
            sys.exit(main())
