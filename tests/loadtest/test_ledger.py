"""Claims about the ledger: whatever a conversation does, it counts as from scratch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import LoadError
from loadtest.prompt.ledger import Ledger
from loadtest.prompt.prompts import Frame, Image, Message, ToolCall, make_prompt
from loadtest.prompt.words import EMPTY, Text, Vocabulary
from loadtest.traffic.sessions import Seeds

BLOCK = 16


def encode(message: Message) -> bytes:
    return orjson.dumps(message.body())


def text(vocabulary: Vocabulary, seed: int, most: int = 40) -> Text:
    rng = Seeds(seed=seed, salt="").lengths()
    return vocabulary.draw(rng, rng.randrange(most))


def turn(vocabulary: Vocabulary, seed: int) -> list[Message]:
    """Answer with up to three calls, give their results, and ask on."""
    draw = partial(text, vocabulary)
    calls = tuple(
        ToolCall(id=f"c{seed}.{i}", name=("read", "edit")[(seed + i) % 2], argument=draw(seed + i))
        for i in range(seed % 4)
    )
    return [
        Message(
            role="assistant", reasoning=draw(seed + 2), content=draw(seed + 3), tool_calls=calls
        ),
        *(Message(role="tool", content=draw(seed + 4), call_id=call.id) for call in calls),
        Message(role="user", content=draw(seed + 1)),
    ]


def opening(vocabulary: Vocabulary) -> list[Message]:
    """Start a conversation."""
    return [
        Message(role="system", content=text(vocabulary, 1, 90)),
        Message(role="user", content=text(vocabulary, 2)),
    ]


def strip(messages: list[Message]) -> list[Message]:
    """Drop the reasoning of all answers, as some harnesses do."""
    return [replace(message, reasoning=EMPTY) for message in messages]


CHANGES = ["append", "compact", "strip", "cut", "fork", "die", "same"]


@settings(deadline=None, max_examples=60)
@given(changes=st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 999)), max_size=12))
def test_every_step_counts_as_from_scratch(
    tool_frame: Frame, vocabulary: Vocabulary, changes: list[tuple[str, int]]
) -> None:
    """Blocks, length and body of a prompt must not depend on how the conversation came to it."""
    messages = start = opening(vocabulary)
    ledgers = [Ledger(tool_frame, BLOCK, encode)]
    for change, seed in changes:
        if change == "append":
            messages = [*messages, *turn(vocabulary, seed)]
        elif change == "compact":
            messages = [*start, *turn(vocabulary, seed)]
        elif change == "strip":
            messages = strip(messages)
        elif change == "cut":
            messages = cut(messages, seed)
        elif change == "fork":
            ledgers.append(ledgers[seed % len(ledgers)].fork())
        elif change == "die":
            ledgers[seed % len(ledgers)] = Ledger(tool_frame, BLOCK, encode)
        ledger = ledgers[seed % len(ledgers)]
        prompt, fresh = ledger.advance(messages), make_prompt(tool_frame.tokens(messages), BLOCK)
        assert (prompt.token_count, list(prompt.blocks)) == (fresh.token_count, list(fresh.blocks))
        assert ledger.fragments == [encode(message) for message in messages]


def cut(messages: list[Message], seed: int) -> list[Message]:
    """Go back to an earlier point, which may not end between a call and its result."""
    ends = [i for i, message in enumerate(messages) if message.role == "user"]
    return messages[: ends[seed % len(ends)] + 1]


def test_only_what_is_new_is_encoded(tool_frame: Frame, vocabulary: Vocabulary) -> None:
    """Encoding a million tokens at every step would stop all other sessions."""
    encoded: list[Message] = []

    def count(message: Message) -> bytes:
        encoded.append(message)
        return b""

    ledger = Ledger(tool_frame, BLOCK, count)
    messages = [*opening(vocabulary), *turn(vocabulary, 4)]
    ledger.advance(messages)
    del encoded[:]
    ledger.advance([*messages, *turn(vocabulary, 9)])
    assert encoded == turn(vocabulary, 9)


def test_a_fork_shares_its_fragments(tool_frame: Frame, vocabulary: Vocabulary) -> None:
    """The system prompt of a thousand sessions is in memory once."""
    ledger = Ledger(tool_frame, BLOCK, encode)
    ledger.advance([*opening(vocabulary), *turn(vocabulary, 4)])
    assert all(a is b for a, b in zip(ledger.fragments, ledger.fork().fragments, strict=True))


def test_a_prompt_stays_as_it_was(tool_frame: Frame, vocabulary: Vocabulary) -> None:
    """A request may still run while its conversation goes on."""
    ledger = Ledger(tool_frame, BLOCK, encode)
    first = ledger.advance([*opening(vocabulary), *turn(vocabulary, 4)])
    before = list(first.blocks)
    ledger.advance([*opening(vocabulary), *turn(vocabulary, 4), *turn(vocabulary, 8)])
    assert list(first.blocks) == before


def test_a_refused_message_leaves_the_rest_in_order(
    tool_frame: Frame, vocabulary: Vocabulary
) -> None:
    """The session goes on without it."""
    ledger = Ledger(tool_frame, BLOCK, encode)
    good = [*opening(vocabulary), *turn(vocabulary, 4)]
    with pytest.raises(LoadError):
        ledger.advance([*good, Message(role="tool", call_id="nobody's")])
    fresh = make_prompt(tool_frame.tokens(good), BLOCK)
    assert list(ledger.advance(good).blocks) == list(fresh.blocks)


def test_an_image_makes_a_prediction_inexact(frame: Frame, vocabulary: Vocabulary) -> None:
    """What an engine makes of a picture is its own business."""
    question = Message(role="user", content=text(vocabulary, 3))
    shown = replace(question, images=(Image(width=28, height=28, seed=1),))
    ledger = Ledger(frame, BLOCK, encode)
    assert (ledger.advance([question]).exact, ledger.advance([shown]).exact) == (True, False)
