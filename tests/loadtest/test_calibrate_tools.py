"""Claims about learning what declared tools and images add to a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from fleet.errors import ConfigError, LoadError
from loadtest.prompt.calibrate import Ask, Echo, learn_frame
from loadtest.prompt.calibrate_tools import learn_image, learn_tools
from loadtest.prompt.limits import MOST_CALLS
from loadtest.prompt.prompts import Frame, Image, Message, ToolCall, ToolSet
from loadtest.prompt.words import TOKEN_BYTES, Vocabulary
from loadtest.traffic.sessions import Seeds

RNG = Seeds(seed=1, salt="").lengths

DECLARED = bytes(range(2 * TOKEN_BYTES))
CALL = (1_000_007).to_bytes(TOKEN_BYTES, "little")

Server = Callable[[Sequence[Message]], bytes]


def telling(server: Server) -> Ask:
    def ask(messages: Sequence[Message]) -> Echo:
        ids = tuple(memoryview(server(messages)).cast("I"))
        return Echo(prompt_tokens=len(ids), token_ids=ids)

    return ask


def counting(server: Server) -> Ask:
    return lambda messages: replace(telling(server)(messages), token_ids=None)


@pytest.fixture
def server(tool_frame: Frame) -> Frame:
    """Render as a server that has these tools declared."""
    declared = {
        pair: DECLARED + gap for pair, gap in tool_frame.between.items() if pair[0] == "start"
    }
    return replace(tool_frame, between={**tool_frame.between, **declared})


def conversation(vocabulary: Vocabulary) -> list[Message]:
    """Call tools in every mixture: alone, several, the same one twice."""
    rng = RNG("conversation")

    def turn(*names: str) -> list[Message]:
        calls = tuple(
            ToolCall(id=f"{id(names)}-{i}", name=name, argument=vocabulary.draw(rng, 3))
            for i, name in enumerate(names)
        )
        answer = Message(role="assistant", content=vocabulary.draw(rng, 2), tool_calls=calls)
        results = [
            Message(role="tool", content=vocabulary.draw(rng, 5), call_id=c.id) for c in calls
        ]
        return [answer, *results]

    question = Message(role="user", content=vocabulary.draw(rng, 4))
    return [
        Message(role="system", content=vocabulary.draw(rng, 6)),
        question,
        *turn("read"),
        *turn("edit", "read", "read"),
        question,
        *turn("edit"),
    ]


def test_token_ids_give_the_servers_rendering(
    frame: Frame, server: Frame, tools: ToolSet, vocabulary: Vocabulary
) -> None:
    """Also of mixtures of calls that no probe has sent."""
    learnt = learn_tools(telling(server.tokens), frame, tools, vocabulary, RNG())
    messages = conversation(vocabulary)
    assert learnt.exact
    assert learnt.tokens(messages) == server.tokens(messages)


def test_counts_alone_give_exact_lengths_with_tools(
    frame: Frame, server: Frame, tools: ToolSet, vocabulary: Vocabulary
) -> None:
    """Servers that tell no ids can still have their prompts predicted."""
    plain = learn_frame(counting(frame.tokens), vocabulary, RNG())
    learnt = learn_tools(counting(server.tokens), plain, tools, vocabulary, RNG())
    messages = conversation(vocabulary)
    assert not learnt.exact
    assert len(learnt.tokens(messages)) == len(server.tokens(messages))


def test_ids_in_the_prompt_make_it_inexact(
    frame: Frame, server: Frame, tools: ToolSet, vocabulary: Vocabulary
) -> None:
    """Other models write the call's id: the number of tokens is then all that can be told."""
    asked: list[int] = []

    def writes_ids(messages: Sequence[Message]) -> bytes:
        asked.append(1)
        changed = {
            pair: gap.replace(CALL, CALL * len(asked)) for pair, gap in server.between.items()
        }
        return replace(server, between=changed).tokens(messages)

    assert not learn_tools(telling(writes_ids), frame, tools, vocabulary, RNG()).exact


def test_more_calls_at_once_than_were_tried_are_refused(
    frame: Frame, server: Frame, tools: ToolSet, vocabulary: Vocabulary
) -> None:
    """Better a clear end than a prompt of unknown length."""
    learnt = learn_tools(telling(server.tokens), frame, tools, vocabulary, RNG())
    with pytest.raises(LoadError, match=f"call:read#{MOST_CALLS + 1}"):
        learnt.gap("call:read#1", f"call:read#{MOST_CALLS + 1}")


def test_an_image_has_as_many_tokens_as_the_server_says(
    frame: Frame, vocabulary: Vocabulary
) -> None:
    """A mocked engine may count one token where a real one makes hundreds."""
    image = Image(width=640, height=480, seed=1)
    server = replace(frame, images={(640, 480): 3})
    count = learn_image(counting(server.tokens), image, vocabulary, RNG())
    assert count == 3


def test_a_server_that_drops_images_is_told(vocabulary: Vocabulary) -> None:
    """A text-only model would make the whole profile meaningless."""

    def drops(messages: Sequence[Message]) -> Echo:
        return Echo(prompt_tokens=9 - bool(messages[0].images), token_ids=None)

    with pytest.raises(ConfigError, match="Give a model that takes images"):
        learn_image(drops, Image(width=64, height=64, seed=1), vocabulary, RNG())
