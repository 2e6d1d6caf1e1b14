"""Learn from the server how it frames a conversation.

Two small requests are enough when the server tells the token ids of a prompt (Dynamo does, as an
annotation of the stream). Other servers tell only how many tokens a prompt has: five requests then
give the right counts, and the place of the tags at the two ends of a prompt is a guess. What a set
of tools adds is in `loadtest/prompt/calibrate_tools.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson

from fleet.errors import ConfigError
from loadtest.prompt.prompts import Frame, Message, Slot, kind_of, texts
from loadtest.prompt.words import EMPTY, TOKEN_BYTES, Vocabulary

MARKER_WORDS = 4
"""Words per probe text: long enough that no tag of a chat template holds the same run."""

_LONG_WORDS = 64
"""Enough that a tokenizer which cuts some words in two is noticed by the count."""

_TAG_ID = 0xF000_0000
"""First made-up id for tags whose ids the server does not tell; no vocabulary reaches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """Hold what the server said about a prompt."""

    prompt_tokens: int
    token_ids: tuple[int, ...] | None


Ask = Callable[[Sequence[Message]], Echo]


def learn_frame(ask: Ask, vocabulary: Vocabulary, rng: random.Random) -> Frame:
    """Ask probes until the frame is known; raises ConfigError for a wrong tokenizer."""
    words = _Probe(vocabulary, rng)
    echo = ask(words.conversation())
    if echo.token_ids is None:
        return _counted_frame(ask, words)
    between = dict(gaps(echo.token_ids, words.conversation()))
    alone = ask(words.question())
    between.update(gaps(alone.token_ids or (), words.question()))
    return Frame(between=between, exact=True)


class _Probe:
    """Make the probe conversations, each text a different run of words."""

    def __init__(self, vocabulary: Vocabulary, rng: random.Random) -> None:
        self._texts = [vocabulary.draw(rng, MARKER_WORDS) for _ in range(6)]
        self._long = vocabulary.draw(rng, _LONG_WORDS)

    def question(self) -> list[Message]:
        return [Message(role="user", content=self._texts[0])]

    def long_question(self) -> list[Message]:
        return [Message(role="user", content=self._long)]

    def two_questions(self) -> list[Message]:
        return [*self.question(), Message(role="user", content=self._texts[1])]

    def with_system(self) -> list[Message]:
        return [Message(role="system", content=self._texts[2]), *self.question()]

    def with_answer(self) -> list[Message]:
        answer = Message(role="assistant", reasoning=self._texts[3], content=self._texts[4])
        return [*self.question(), answer, Message(role="user", content=self._texts[5])]

    def conversation(self) -> list[Message]:
        return [*self.with_system(), *self.with_answer()[1:], self.two_questions()[1]]


def gaps(
    token_ids: Sequence[int], messages: Sequence[Message]
) -> Iterator[tuple[tuple[Slot, Slot], bytes]]:
    """Cut the tags out from between the probe's texts."""
    tokens = b"".join(id_.to_bytes(TOKEN_BYTES, "little") for id_ in token_ids)
    at = 0
    slots = [("start", EMPTY), *((slot, text) for slot, text, _ in texts(messages)), ("end", EMPTY)]
    for (before, _), (after, text) in pairwise(slots):
        found = len(tokens) if after == "end" else _find(tokens, text.tokens, at)
        if found < 0:
            raise ConfigError(
                "tokenizer_dir: the server's token ids do not hold the words that were sent. "
                "Give the tokenizer directory of the model that the server runs."
            )
        yield (kind_of(before), after), tokens[at:found]
        at = found + len(text.tokens)


def _find(tokens: bytes, wanted: bytes, at: int) -> int:
    """Find whole token ids: a match across the bytes of two ids is none."""
    found = tokens.find(wanted, at)
    while found % TOKEN_BYTES and found >= 0:
        found = tokens.find(wanted, found + 1)
    return found


def _counted_frame(ask: Ask, words: _Probe) -> Frame:
    """Solve the sizes of the tags from the token counts of five probes."""
    tags = TagIds()
    base = overhead(ask, words.question())
    system = overhead(ask, words.with_system()) - base
    user = overhead(ask, words.two_questions()) - base
    answer = overhead(ask, words.with_answer()) - base
    if min(base, system, user, answer) < 0 or overhead(ask, words.long_question()) != base:
        raise ConfigError(
            "tokenizer_dir: the server does not count one prompt token for each word that was "
            "sent. Give the tokenizer directory of the model that the server runs."
        )
    opening = tags.draw(base)
    return Frame(
        between={
            ("start", "user"): opening,
            ("start", "system"): opening,
            ("system", "user"): tags.draw(system),
            ("user", "user"): tags.draw(user),
            ("user", "reasoning"): b"",
            ("reasoning", "content"): b"",
            ("content", "user"): tags.draw(answer),
            ("user", "end"): b"",
        },
        exact=False,
    )


def overhead(ask: Ask, messages: Sequence[Message]) -> int:
    """Count the tags of a prompt: what is in it besides our words."""
    sent = sum(message.length for message in messages)
    return ask(messages).prompt_tokens - sent


class TagIds:
    """Make up ids for tags whose own the server does not tell, none of them twice."""

    def __init__(self, first: int = _TAG_ID) -> None:
        self._next = first

    def draw(self, count: int) -> bytes:
        """Give the next `count` ids, packed."""
        first, self._next = self._next, self._next + count
        return b"".join(id_.to_bytes(TOKEN_BYTES, "little") for id_ in range(first, self._next))


def read_token_ids(comment: bytes) -> tuple[int, ...] | None:
    """Read the annotation: a JSON list, written as a JSON string in an SSE comment."""
    try:
        value = orjson.loads(comment)
        ids = orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return None
    if isinstance(ids, list) and all(isinstance(id_, int) for id_ in ids):
        return tuple(ids)
    return None
