"""A webhook hears of a rollout, and can do nothing to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fleet.errors import ConfigError
from infra.rollout import webhook as module
from infra.rollout.webhook import require_address, require_recordable, webhook

SECRET = "T00/B00/not-for-logs"  # noqa: S105 - what must not be shown


class Chat(HTTPServer):
    """A chat service that keeps what it is told."""

    heard: list[dict[str, object]]
    code = 200
    hangs: threading.Event | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{SECRET}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        chat = self.server
        assert isinstance(chat, Chat)
        body = self.rfile.read(int(self.headers["content-length"]))
        if chat.hangs:
            chat.hangs.wait(30)
        chat.heard.append(json.loads(body))
        self.send_response(chat.code)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def chat() -> Iterator[Chat]:
    server = Chat(("127.0.0.1", 0), Handler)
    server.heard = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_events_arrive_in_their_order(chat: Chat) -> None:
    """Those at the end too: `held` is the one that calls somebody."""
    said: list[str] = []
    with webhook(chat.url, said.append) as send:
        for number in range(5):
            send({"number": number})
    assert [event["number"] for event in chat.heard] == [0, 1, 2, 3, 4]
    assert said == []


def test_a_webhook_that_refuses_is_named_once_by_its_host_only(chat: Chat) -> None:
    """The rest of its address is what lets anybody post there."""
    chat.code = 403
    said: list[str] = []
    with webhook(chat.url, said.append) as send:
        send({"number": 1})
        send({"number": 2})
    assert said == ["webhook at 127.0.0.1: answered 403; the rollout goes on without it"]


def test_nobody_there_is_no_error(chat: Chat) -> None:
    """A network error is not the release's fault."""
    url = chat.url.replace(str(chat.server_port), "9")
    said: list[str] = []
    with webhook(url, said.append) as send:
        send({"number": 1})
    assert said == ["webhook at 127.0.0.1: ConnectError; the rollout goes on without it"]


def test_one_that_hangs_holds_nothing_up(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a step nor, for long, the end; what does not fit is left out."""
    monkeypatch.setattr(module, "LAST_S", 0.2)
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    chat.hangs = threading.Event()
    with webhook(chat.url, lambda _text: None) as send:
        for number in range(1000):
            send({"number": number})
    chat.hangs.set()


def test_without_an_address_nothing_is_sent() -> None:
    """Most fleets have none."""
    with webhook(None, lambda _text: None) as send:
        send({"number": 1})


@pytest.mark.parametrize("url", ["chat.example/x", "file:///etc/passwd", "https://", "http://[x"])
def test_what_is_no_address_is_refused_unseen(url: str) -> None:
    """Before anything is touched, and without showing it."""
    with pytest.raises(ConfigError) as caught:
        require_address(url, "K3FLEET_WEBHOOK")
    assert str(caught.value).startswith("K3FLEET_WEBHOOK: is no http")
    assert url not in str(caught.value)


def test_a_password_is_not_recorded() -> None:
    """The strategy's address is in every cluster's record, for all who may read a ConfigMap."""
    require_recordable("https://chat.test/hook", "strategy: webhook")
    with pytest.raises(ConfigError, match="K3FLEET_WEBHOOK") as caught:
        require_recordable("https://me:hunter2@chat.test/hook", "strategy: webhook")
    assert "hunter2" not in str(caught.value)
