"""Claims about messages with tools and images, and the prompt that they make."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import replace
from itertools import pairwise

import pytest

from fleet.errors import LoadError
from loadtest.prompt.prompts import Frame, Image, Message, ToolCall, declare_tool
from loadtest.prompt.words import TOKEN_BYTES, Text, Vocabulary
from loadtest.traffic.sessions import Seeds


@pytest.fixture
def texts(vocabulary: Vocabulary) -> list[Text]:
    """Draw some texts of different lengths."""
    rng = Seeds(seed=5, salt="").lengths()
    return [vocabulary.draw(rng, count) for count in range(1, 8)]


@pytest.fixture
def turn(texts: list[Text]) -> list[Message]:
    """Ask, call two tools, give both results."""
    calls = (
        ToolCall(id="a", name="read", argument=texts[2]),
        ToolCall(id="b", name="edit", argument=texts[3]),
    )
    return [
        Message(role="user", content=texts[0]),
        Message(role="assistant", reasoning=texts[1], content=texts[4], tool_calls=calls),
        Message(role="tool", content=texts[5], call_id="a"),
        Message(role="tool", content=texts[6], call_id="b"),
    ]


def test_a_turn_with_tools_is_what_the_api_takes(turn: list[Message], texts: list[Text]) -> None:
    """Arguments are JSON in a string, results name the call that they answer."""
    answer = turn[1].body()
    first = answer["tool_calls"][0]
    assert json.loads(first["function"]["arguments"]) == {"input": texts[2].text}
    assert (first["id"], first["type"], first["function"]["name"]) == ("a", "function", "read")
    assert turn[2].body() == {"role": "tool", "tool_call_id": "a", "content": texts[5].text}


def test_every_text_of_a_turn_is_in_the_prompt(tool_frame: Frame, turn: list[Message]) -> None:
    """Arguments and results fill the context as much as questions do."""
    tags = sum(len(gap) // TOKEN_BYTES for gap in gaps_of(tool_frame, turn))
    assert len(tool_frame.tokens(turn)) // TOKEN_BYTES == tags + sum(m.length for m in turn)


def gaps_of(frame: Frame, messages: list[Message]) -> list[bytes]:
    slots = ["start", *(slot for slot, _ in frame.slots(messages)), "end"]
    return [frame.gap(a, b) for a, b in pairwise(slots)]


def test_call_ids_are_not_in_the_prompt(tool_frame: Frame, turn: list[Message]) -> None:
    """K3 writes a call's place in its answer, so ids may be whatever is unique."""
    renamed = [
        turn[0],
        replace(turn[1], tool_calls=tuple(replace(c, id=c.id * 9) for c in turn[1].tool_calls)),
        *(replace(message, call_id=message.call_id * 9) for message in turn[2:]),
    ]
    assert tool_frame.tokens(renamed) == tool_frame.tokens(turn)


def test_a_result_without_its_call_is_refused(tool_frame: Frame, turn: list[Message]) -> None:
    """The server would number it by a rule of its own, and the prediction would be wrong."""
    with pytest.raises(LoadError, match="Give results the ids of the calls"):
        tool_frame.tokens([turn[0], turn[2]])


def test_a_tool_that_was_not_declared_is_named(tool_frame: Frame, turn: list[Message]) -> None:
    """Its tags are unknown, so its prompt has no known length."""
    calls = tuple(replace(call, name="write") for call in turn[1].tool_calls)
    with pytest.raises(LoadError, match="call:write#1 were not learned"):
        tool_frame.tokens([turn[0], replace(turn[1], tool_calls=calls)])


def test_an_image_is_a_part_of_a_message(texts: list[Text]) -> None:
    """As chat completions has it: the text, then the picture as a data URL."""
    image = Image(width=50, height=30, seed=7)
    parts = Message(role="user", content=texts[0], images=(image,)).body()["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"] == image.url


def test_a_picture_is_a_whole_png_of_its_size() -> None:
    """A server that decodes it must not refuse it."""
    data = base64.b64decode(Image(width=50, height=30, seed=7).url.partition(",")[2])
    assert struct.unpack(">II", data[16:24]) == (50, 30)
    start = data.index(b"IDAT")
    size = struct.unpack(">I", data[start - 4 : start])[0]
    assert len(zlib.decompress(data[start + 4 : start + 4 + size])) == (50 + 1) * 30


def test_only_the_same_picture_is_the_same_prompt(frame: Frame, texts: list[Text]) -> None:
    """Engines hash the picture into its blocks, and another size has another number of tokens."""

    def tokens(image: Image) -> bytes:
        return frame.tokens([Message(role="user", content=texts[0], images=(image,))])

    image = Image(width=56, height=28, seed=1)
    assert tokens(image) == tokens(replace(image))
    assert tokens(image) != tokens(replace(image, seed=2))
    assert len(tokens(replace(image, height=56))) - len(tokens(image)) == 2 * TOKEN_BYTES


def test_a_declared_tool_takes_the_argument_that_calls_have() -> None:
    """A call with an argument that its tool does not declare would be the harness's mistake."""
    parameters = declare_tool("read", "read a file")["function"]["parameters"]
    assert parameters["required"] == list(parameters["properties"]) == ["input"]
