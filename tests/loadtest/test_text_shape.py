"""Claims about the short cut past the JSON parser: it never says what the parser would not."""

from __future__ import annotations

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from loadtest.client.sse import Expected, Reply

TEXTS = st.text(alphabet=st.sampled_from('ab"\\\n:,{}é漢🙂'), max_size=6)
FIELDS = st.sampled_from(["content", "reasoning_content", "reasoning"])
WRITERS = st.sampled_from(
    [
        orjson.dumps,
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, separators=(",", ":")).encode(),
    ]
)
DELTAS = st.dictionaries(FIELDS, TEXTS | st.none(), max_size=2)
TOOLS = st.fixed_dictionaries({"tool_calls": st.just([{"index": 0, "function": {"name": "x"}}])})
CHUNKS = st.lists(
    st.tuples(DELTAS | TOOLS, st.sampled_from([None, None, None, "stop"]), st.booleans()),
    max_size=12,
)


def said(reply: Reply) -> dict[str, object]:
    names = ("chunks", "first_s", "first_output_s", "gaps_s", "usage", "finish_reason", "error")
    return {name: getattr(reply, name) for name in names}


@given(CHUNKS, WRITERS)
def test_the_short_cut_says_what_the_parser_says(chunks: list, write) -> None:  # type: ignore[no-untyped-def, type-arg]
    """Texts with quotes, backslashes and braces try to look like the end of their string."""
    quick, full = Reply(0.0), Reply(0.0, expected=Expected(validate_json=True))
    for number, (delta, finish, counted) in enumerate(chunks, start=1):
        chunk = {"choices": [{"delta": delta, "finish_reason": finish}], "model": "content"}
        if counted:
            chunk["usage"] = {"prompt_tokens": 1, "completion_tokens": number}
        for reply in (quick, full):
            reply.read(b"data: " + write(chunk) + b"\n\n", float(number))
    assert said(quick) == said(full)


def test_a_chunk_of_the_known_shape_is_not_parsed() -> None:
    """Otherwise the test above would compare the parser with itself."""
    reply = Reply(0.0)
    # Broken inside of the text in a way that only a parser notices: an escape that JSON lacks.
    for text in (b"a", rb"b\qc"):
        reply.read(b'data: {"choices":[{"delta":{"content":"' + text + b'"}}]}\n\n', 1.0)
    assert (reply.chunks, reply.error) == (2, None)


def test_validation_parses_every_chunk() -> None:
    """Who doubts a server wants to see its first wrong byte."""
    reply = Reply(0.0, expected=Expected(validate_json=True))
    for text in (b"a", rb"b\qc"):
        reply.read(b'data: {"choices":[{"delta":{"content":"' + text + b'"}}]}\n\n', 1.0)
    assert reply.error == "bad_json"
