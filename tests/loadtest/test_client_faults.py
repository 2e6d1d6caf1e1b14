"""Claims about what the client says of servers that misbehave, over real connections.

The cases are data (tests/cases/client): what the server does, and what has to be said of it.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
import pytest
import yaml

from loadtest.client.client_options import ClientOptions
from loadtest.client.fetch import Request, fetch
from loadtest.client.sse import Expected, Reply
from loadtest.client.taxonomy import error_classes
from loadtest.client.wire import Connection

FOLDER = Path(__file__).parents[1] / "cases" / "client"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


def ask(connection: Connection, script: list[Any], expected: Expected | None = None) -> Reply:
    body = orjson.dumps({"truth": script})
    request = Request(path="/v1/chat/completions", body=body, expected=expected or Expected())
    return fetch(connection, request, perf_counter)


@pytest.mark.parametrize("case", CASES)
def test_what_a_server_does_wrong_has_its_name(truth_server: str, case: dict[str, Any]) -> None:
    """A report that says only "failed" sends people to the wrong team."""
    options = ClientOptions(**{"end_timeout_s": 0.3, **case.get("options", {})})
    given = dict(case.get("expected", {}))
    tools = frozenset(given.pop("tools", ()))
    expected = Expected(tools=tools, max_event_bytes=options.max_event_bytes, **given)
    connection = Connection(truth_server, {}, options)
    reply = ask(connection, case["script"], expected)
    says = dict(case["says"])
    assert says.pop("detail", "") in reply.error_detail
    assert reply.chunks <= says.pop("chunks_at_most", reply.chunks)
    assert reply.received_bytes <= says.pop("bytes_at_most", reply.received_bytes)
    assert connection.is_open is says.pop("keeps_connection", connection.is_open)
    assert {name: getattr(reply, name) for name in says} == says
    connection.close()


def test_every_class_of_the_cases_is_explained() -> None:
    """A name in a report that no page explains helps nobody."""
    named = {case.values[0]["says"]["error"] for case in CASES} - {None}  # type: ignore[index, call-overload, union-attr]
    assert named <= error_classes().keys()


KEY = 'sk-"very/secret'
ECHO = "Authorization: Bearer " + KEY
SAYS = orjson.dumps({"error": {"message": ECHO}}).decode()


def refusal(text: str) -> list[Any]:
    return [
        {"head": {"status": 429, "headers": {"Content-Length": len(text)}}},
        {"raw": text},
        {"hang": True},
    ]


@pytest.mark.parametrize(
    "script",
    [
        refusal(ECHO),
        refusal(SAYS),
        refusal(SAYS.replace("/", "\\/")),
        refusal("-" * 190 + KEY),
        refusal(ECHO[:-3]),
        [{"event": {"error": {"message": ECHO}}}, {"done": True}],
        [{"event": "{" + ECHO}, {"done": True}],
    ],
)
def test_a_key_that_a_server_echoes_is_noted_nowhere(truth_server: str, script: list[Any]) -> None:
    """Details are written to files and shown to people who have no key."""
    connection = Connection(truth_server, {"Authorization": f"Bearer {KEY}"})
    reply = ask(connection, script)
    connection.close()
    assert reply.error
    assert "sk-" not in reply.error_detail
    assert "[API key]"[:6] in reply.error_detail
    assert "secret" not in repr(reply)


def test_a_key_in_other_words_of_an_answer_is_hidden_too(truth_server: str) -> None:
    """The replica's name and the reason of the end stand in every record."""
    chunk = {
        "choices": [{"delta": {"content": "a"}, "finish_reason": KEY}],
        "nvext": {"worker_id": {"decode_worker_id": KEY, "prefill_worker_id": KEY + "2"}},
    }
    connection = Connection(truth_server, {"Authorization": f"Bearer {KEY}"})
    reply = ask(connection, [{"event": chunk}, {"usage": {}}, {"done": True}])
    connection.close()
    told = (reply.finish_reason, reply.worker, reply.prefill_worker)
    assert told == ("[API key]", "[API key]", "[API key]2")
