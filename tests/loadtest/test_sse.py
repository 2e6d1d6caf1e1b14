"""Claims about the reader of server-sent events."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.client.event_stream import Event, EventParser
from loadtest.client.sse import Reply

STREAM = (
    ": keep-alive\r\n\r\n"
    "event: token_ids\r\n: [1, 2]\r\n\r\n"
    'data: {"choices":[{"delta":{"content":"né漢🙂"}}]}\n\n'
    "data: first\rdata: second\r\r"
    "id: 7\nretry: 10\ndata:no space\n\n"
    "data: [DONE]\r\n\r\n"
).encode()

EVENTS = [
    Event(comment=b"keep-alive"),
    Event(name="token_ids", comment=b"[1, 2]"),
    Event(data='{"choices":[{"delta":{"content":"né漢🙂"}}]}'.encode()),
    Event(data=b"first\nsecond"),
    Event(data=b"no space"),
    Event(data=b"[DONE]"),
]


def parse(stream: bytes, cuts: list[int]) -> list[Event]:
    parser = EventParser()
    edges = [0, *sorted(cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_any_cut_of_the_stream_gives_the_same_events(cuts: list[int]) -> None:
    """The network cuts where it likes: in a CRLF, in a character, in a field name."""
    assert parse(STREAM, cuts) == EVENTS


def test_byte_by_byte_gives_the_same_events() -> None:
    """The finest cut has every other cut's edges."""
    assert parse(STREAM, list(range(len(STREAM)))) == EVENTS


@given(st.lists(st.sampled_from([b"data: x", b":c", b"event: e", b"", b"\r", b"\n", b"data"])))
def test_cuts_do_not_matter_for_hostile_streams_either(parts: list[bytes]) -> None:
    """A server that mixes line ends must not make two readers disagree."""
    stream = b"\n".join(parts)
    assert parse(stream, list(range(len(stream)))) == parse(stream, [])


def test_an_unfinished_event_is_not_an_event() -> None:
    """A stream that is cut has lost its last event."""
    assert parse(b"data: whole\n\ndata: half\n", []) == [Event(data=b"whole")]


def chunk(**delta: object) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"delta": delta}]}) + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def read(*reads: tuple[float, bytes]) -> Reply:
    reply = Reply(sent_s=10.0)
    for now_s, data in reads:
        reply.read(data, now_s)
    reply.close()
    return reply


def test_a_role_only_chunk_is_no_first_token() -> None:
    """Servers send the role before the prefill ends; counting it makes TTFT look like nothing."""
    reply = read((10.1, chunk(role="assistant", content="")), (10.5, chunk(content="a")))
    assert reply.first_s == 10.5


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a"},
        {"reasoning_content": "a"},
        {"reasoning": "a"},
        {"tool_calls": [{"index": 0}]},
    ],
)
def test_content_reasoning_and_tools_are_tokens(delta: dict[str, object]) -> None:
    """A reasoning model's first token is a thought."""
    assert read((10.5, chunk(**delta))).first_s == 10.5


def test_tokens_of_one_read_make_no_gap() -> None:
    """Two chunks in one packet arrived together: a gap of 0 ms would be an invention."""
    reply = read((10.5, chunk(content="a") + chunk(content="b")), (10.75, chunk(content="c")))
    assert (reply.chunks, reply.gaps_s) == (3, [0.25])


def test_the_last_worker_counts() -> None:
    """After a migration another replica finishes the answer."""
    tell = [
        orjson.dumps({"choices": [], "nvext": {"worker_id": {"decode_worker_id": n}}})
        for n in (18383930710794126975, 2)
    ]
    assert read(*((10.1, b"data: " + text + b"\n\n") for text in tell)).worker == "2"


@pytest.mark.parametrize(("prefill", "told"), [(7, "7"), (2, None)])
def test_who_computed_the_prompt_is_told_when_it_is_another(prefill: int, told: str | None) -> None:
    """An aggregated worker names itself for both jobs, and did not answer twice."""
    workers = {"prefill_worker_id": prefill, "decode_worker_id": 2}
    text = orjson.dumps({"choices": [], "nvext": {"worker_id": workers}})
    reply = read((10.1, b"data: " + text + b"\n\n"))
    assert (reply.worker, reply.prefill_worker) == ("2", told)


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (chunk(content="a") + USAGE + DONE, None),
        (chunk(content="a") + USAGE, "truncated"),
        (chunk(content="a") + DONE, "no_usage"),
        (USAGE + DONE, "empty"),
        (b"", "truncated"),
        (chunk(content="a") + b'data: {"error":{"code":503}}\n\n' + DONE, "in_stream_error"),
        (b'event: error\ndata: {"message":"x"}\n\n' + DONE, "in_stream_error"),
        (b"data: {half\n\n" + DONE, "bad_json"),
        (b"data: 7\n\n" + DONE, "bad_json"),
        (b'data: {"choices":[null],"nvext":[]}\n\n' + DONE, "empty"),
    ],
)
def test_a_200_is_judged_by_its_stream(stream: bytes, error: str | None) -> None:
    """A worker that dies after the head was sent still has status 200."""
    assert read((10.5, stream)).error == error


def test_the_first_error_is_kept() -> None:
    """What follows an error frame is its consequence."""
    assert read((10.5, b'data: {"error":"lost"}\n\n')).error == "in_stream_error"
