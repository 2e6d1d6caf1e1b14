"""Claims about learning the frame from a server."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from fleet.errors import ConfigError
from loadtest.prompt.calibrate import Echo, learn_frame, read_token_ids
from loadtest.prompt.prompts import Frame, Message
from loadtest.prompt.words import TOKEN_BYTES, Vocabulary
from loadtest.traffic.sessions import Seeds


def rng(seed: int) -> random.Random:
    return Seeds(seed=seed, salt="").lengths()


def ids_of(frame: Frame, messages: Sequence[Message]) -> tuple[int, ...]:
    return tuple(memoryview(frame.tokens(messages)).cast("I"))


def test_token_ids_give_the_servers_own_frame(frame: Frame, vocabulary: Vocabulary) -> None:
    """Then every prompt is known to the last token."""

    def ask(messages: Sequence[Message]) -> Echo:
        ids = ids_of(frame, messages)
        return Echo(prompt_tokens=len(ids), token_ids=ids)

    assert learn_frame(ask, vocabulary, rng(1)) == frame


def conversation(vocabulary: Vocabulary) -> list[Message]:
    text = [vocabulary.draw(rng(seed), seed) for seed in range(8)]
    return [
        Message(role="system", content=text[7]),
        Message(role="user", content=text[1]),
        Message(role="assistant", reasoning=text[2], content=text[0]),
        Message(role="user", content=text[3]),
        Message(role="user", content=text[4]),
    ]


def test_counts_alone_give_exact_lengths(frame: Frame, vocabulary: Vocabulary) -> None:
    """A server that tells no ids still lets prompt lengths be predicted."""

    def ask(messages: Sequence[Message]) -> Echo:
        return Echo(prompt_tokens=len(ids_of(frame, messages)), token_ids=None)

    learnt = learn_frame(ask, vocabulary, rng(1))
    messages = conversation(vocabulary)
    assert not learnt.exact
    assert len(learnt.tokens(messages)) == len(frame.tokens(messages))


def test_another_models_tokenizer_is_noticed(frame: Frame, vocabulary: Vocabulary) -> None:
    """Wrong ids would make every prediction wrong, silently."""

    def ask(messages: Sequence[Message]) -> Echo:
        ids = tuple(id_ + 1 for id_ in ids_of(frame, messages))
        return Echo(prompt_tokens=len(ids), token_ids=ids)

    with pytest.raises(ConfigError, match="Give the tokenizer directory"):
        learn_frame(ask, vocabulary, rng(1))


def test_words_of_several_tokens_are_noticed_by_the_count(
    frame: Frame, vocabulary: Vocabulary
) -> None:
    """A server that tells no ids still shows that its tokenizer cuts our words."""

    def ask(messages: Sequence[Message]) -> Echo:
        words = sum(message.length for message in messages)
        return Echo(prompt_tokens=len(ids_of(frame, messages)) + words // 3, token_ids=None)

    with pytest.raises(ConfigError, match="one prompt token for each word"):
        learn_frame(ask, vocabulary, rng(1))


def test_a_match_across_two_ids_is_none(frame: Frame, vocabulary: Vocabulary) -> None:
    """Token ids are compared as ids, not as bytes."""
    first = vocabulary.draw(rng(1), 4).tokens
    shifted = first[-1:] + first[:-1]
    ids = [int.from_bytes(shifted[i : i + TOKEN_BYTES], "little") for i in range(0, 16, 4)]

    def ask(messages: Sequence[Message]) -> Echo:
        known = (*ids, *ids_of(frame, messages))
        return Echo(prompt_tokens=len(known), token_ids=known)

    learnt = learn_frame(ask, vocabulary, rng(1))
    assert len(learnt.between["start", "user"]) == len(frame.between["start", "user"]) + 16


@pytest.mark.parametrize(
    ("comment", "ids"),
    [(b'"[1, 2]"', (1, 2)), (b"[1, 2]", (1, 2)), (b"[1,", None), (b'"x"', None), (b"{}", None)],
)
def test_the_annotation_is_a_list_in_a_string(comment: bytes, ids: tuple[int, ...] | None) -> None:
    """Dynamo encodes it twice; anything else counts as not told."""
    assert read_token_ids(comment) == ids
