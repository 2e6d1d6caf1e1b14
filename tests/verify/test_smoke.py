"""The questions that show whether an endpoint serves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from verify.smoke import chat_answers, reports_cached, worker_answers

Tell = Callable[[Any], str]
WORKERS = {"decode_worker_id": 7, "prefill_worker_id": 5}


class Endpoint(BaseHTTPRequestHandler):
    """Answers every chat alike, and keeps what it was asked."""

    reply: Any
    asked: dict[str, Any]

    def do_POST(self) -> None:
        type(self).asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self.reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def tell() -> Iterator[Tell]:
    """Let an endpoint give one answer, and return its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()

    def url(reply: Any) -> str:
        Endpoint.reply = reply
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield url
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("usage", "chats", "cached"),
    [
        ({"completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}, True, True),
        ({"completion_tokens": 2, "prompt_tokens_details": None}, True, False),
        ({"completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": None}}, True, False),
        ({"completion_tokens": 0}, False, False),
        (None, False, False),
    ],
)
def test_an_answer_is_read_for_what_it_says(
    tell: Tell, usage: dict[str, Any] | None, chats: bool, cached: bool
) -> None:
    """Zero cached tokens are a report; none at all is what cache gates cannot be judged by."""
    url = tell({"usage": usage})
    assert chat_answers(url, "K3") is chats
    assert reports_cached(url, "K3") is cached


@pytest.mark.parametrize("reply", [[], "text", {"error": {"message": "no"}}, {"nvext": None}])
def test_what_is_no_answer_does_not_serve(tell: Tell, reply: Any) -> None:
    """A proxy's page with status 200 is one of them."""
    url = tell(reply)
    assert not chat_answers(url, "K3")
    assert not reports_cached(url, "K3")
    assert not worker_answers(url, "K3", "7")


@pytest.mark.parametrize(
    ("prefill", "wanted"),
    [(None, {"backend_instance_id": 7}), ("5", {"decode_worker_id": 7, "prefill_worker_id": 5})],
)
def test_a_worker_is_asked_by_its_id(
    tell: Tell, prefill: str | None, wanted: dict[str, int]
) -> None:
    """With prefill and decode apart both are named, and the router has no choice."""
    assert worker_answers(tell({"nvext": {"worker_id": WORKERS}}), "K3", "7", prefill)
    assert wanted.items() <= Endpoint.asked["nvext"].items()


@pytest.mark.parametrize(("worker", "prefill"), [("8", None), ("7", "6")])
def test_an_answer_of_another_worker_does_not_count(
    tell: Tell, worker: str, prefill: str | None
) -> None:
    """The one that was asked may be dead, and the router has helped out."""
    url = tell({"nvext": {"worker_id": WORKERS}})
    assert not worker_answers(url, "K3", worker, prefill)
