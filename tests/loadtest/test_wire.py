"""Claims about connections: kept, opened anew, encrypted, and what their times mean."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import gevent
import orjson
import pytest

from fleet.errors import ConfigError
from loadtest.client.client_options import ClientOptions
from loadtest.client.fetch import Request, fetch
from loadtest.client.sse import Expected, Reply
from loadtest.client.transport import check_ca_file, tls_context
from loadtest.client.wire import Connection

GOOD: list[dict[str, Any]] = [
    {"wait": 0.01},
    {"events": {"count": 20, "gap_s": 0.002}},
    {"usage": {}},
    {"done": True},
]
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    b'data: {"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
)


def ask(connection: Connection, *steps: Any, name: str = "", keep_text: bool = False) -> Reply:
    body = orjson.dumps({"truth": list(steps), "truth_id": name})
    expected = Expected(keep_text=keep_text)
    return fetch(connection, Request(path="/x", body=body, expected=expected), perf_counter)


def test_a_moment_lies_between_writing_and_reading(truth_server: str) -> None:
    """An arrival before the server wrote, or after we returned, would be an invention."""
    connection = Connection(truth_server, {})
    reply = ask(connection, *GOOD, name="moments")
    with urllib.request.urlopen(f"{truth_server}/truth") as told:  # noqa: S310 - our own server
        answers = {answer["id"]: answer for answer in json.load(told)["answers"]}
    written = answers["moments"]["written_s"]
    assert reply.first_s is not None
    assert reply.sent_s <= answers["moments"]["received_s"]
    assert written[0] - 0.001 <= reply.first_s <= perf_counter()
    assert reply.last_s is not None
    assert written[-1] - 0.001 <= reply.last_s <= reply.ended_s + 0.001


def test_the_truth_server_says_how_late_it_was(truth_server: str) -> None:
    """Without that an error of the server would be taken for one of the client."""
    ask(Connection(truth_server, {}), *GOOD, name="late")
    with urllib.request.urlopen(f"{truth_server}/truth") as told:  # noqa: S310 - our own server
        answers = {answer["id"]: answer for answer in json.load(told)["answers"]}
    due, written = answers["late"]["due_s"], answers["late"]["written_s"]
    assert [moment - due[0] for moment in due] == pytest.approx([n * 0.002 for n in range(20)])
    assert all(wrote >= meant for wrote, meant in zip(written, due, strict=True))


def test_the_connection_is_kept_and_costs_nothing_then(truth_server: str) -> None:
    """A session that thinks for a minute keeps its connection."""
    connection = Connection(truth_server, {})
    first, second = ask(connection, *GOOD), ask(connection, *GOOD)
    assert (first.error, second.error, second.connect_s) == (None, None, 0.0)
    assert first.connect_s > 0.0


def test_a_stale_connection_is_retried_once_and_counted(gateway: str) -> None:
    """The server closed it while nobody looked; that the request went out twice is said."""
    connection = Connection(f"{gateway}/stale", {})
    body = orjson.dumps({"messages": [], "max_tokens": 1, "nvext": {}})
    replies = [fetch(connection, Request(path="/", body=body), perf_counter) for _ in range(3)]
    assert [(reply.error, reply.retries) for reply in replies] == [(None, 0), (None, 1), (None, 1)]


def test_an_answer_that_began_is_not_asked_for_again(truth_server: str) -> None:
    """The engine has worked on it: a second one would be counted as one call."""
    connection = Connection(truth_server, {})
    ask(connection, *GOOD)
    reply = ask(connection, {"raw": "HTTP/1.1 200 OK\r\n"}, {"close": True})
    assert (reply.error, reply.retries) == ("reset", 0)


def test_a_refusal_of_a_large_request_is_read() -> None:
    """A gateway may answer 413 and close before it has read all of it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        accepted, _ = listener.accept()
        accepted.recv(1000)
        accepted.sendall(b"HTTP/1.1 413 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        accepted.shutdown(socket.SHUT_WR)
        while accepted.recv(1 << 20):
            pass
        accepted.close()

    thread = threading.Thread(target=refuse)
    thread.start()
    connection = Connection(f"http://127.0.0.1:{listener.getsockname()[1]}", {})
    request = Request(path="/", body=b"x" * 5_000_000)
    reply = in_hub(lambda: fetch(connection, request, perf_counter))
    thread.join()
    listener.close()
    assert (reply.status, reply.error) == (413, "too_large")


def test_a_server_that_reads_no_request_is_given_up() -> None:
    """A process that is stopped still has a kernel that takes the first megabytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        connection = Connection(url, {}, ClientOptions(first_token_timeout_s=0.3))
        request = Request(path="/", body=b"x" * 50_000_000)
        reply = in_hub(lambda: fetch(connection, request, perf_counter))
    assert (reply.status, reply.error, connection.is_open) == (0, "timeout_first_token", False)


def test_texts_and_tool_calls_are_put_together(truth_server: str) -> None:
    """A live history goes on with what the model said."""
    call = {"index": 0, "id": "c", "function": {"name": "read", "arguments": '{"a":'}}
    rest = {"index": 0, "function": {"arguments": "1}"}}
    reply = ask(
        Connection(truth_server, {}),
        {"event": {"choices": [{"delta": {"reasoning_content": "think "}}]}},
        {"event": {"choices": [{"delta": {"reasoning_content": "more"}}]}},
        {"wait": 0.02},
        {"event": {"choices": [{"delta": {"content": "said"}}]}},
        {"event": {"choices": [{"delta": {"tool_calls": [call]}}]}},
        {"event": {"choices": [{"delta": {"tool_calls": [rest]}, "finish_reason": "stop"}]}},
        {"usage": {"completion_tokens": 5}},
        {"done": True},
        keep_text=True,
    )
    assert (reply.reasoning, reply.content, reply.error) == ("think more", "said", None)
    function = {"name": "read", "arguments": '{"a":1}'}
    assert reply.tool_calls == ({"id": "c", "type": "function", "function": function},)
    assert reply.first_s is not None
    assert reply.first_output_s is not None
    assert reply.first_output_s > reply.first_s


def test_many_streams_are_read_at_once(truth_server: str) -> None:
    """None waits for another."""
    gevent.joinall(
        jobs := [gevent.spawn(ask, Connection(truth_server, {}), *GOOD) for _ in range(200)],
        raise_error=True,
    )
    assert {(job.value.error, job.value.chunks) for job in jobs} == {(None, 20)}


def test_a_patched_process_reads_too(truth_server: str) -> None:
    """Locust replaces the modules for sockets and waiting before it loads anything of ours."""
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import sys; from time import perf_counter\n"
        "from loadtest.client.fetch import Request, fetch\n"
        "from loadtest.client.wire import Connection\n"
        "reply = fetch(Connection(sys.argv[1], {}), Request(path='/', body=b'{}'), perf_counter)\n"
        "print(reply.error, reply.error_detail, reply.chunks)\n"
    )
    command = [sys.executable, "-c", code, truth_server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["None", "16"]


def test_a_killed_call_leaves_no_connection(truth_server: str) -> None:
    """Locust kills its users at the end: half an answer is no state to keep."""
    connection = Connection(truth_server, {})
    job = gevent.spawn(ask, connection, {"events": {"count": 9, "gap_s": 9.0}})
    gevent.sleep(0.1)
    job.kill()
    assert not connection.is_open


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[str]:
    """Answer each TLS connection with one good stream."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(accepted, server_side=True) as stream:
                    stream.recv(65_536)
                    stream.sendall(ANSWER)
            except OSError:
                accepted.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(timeout=5)


def in_hub(call: Callable[[], Reply]) -> Reply:
    """Run a call in a greenlet, bounded."""
    job = gevent.spawn(call)
    reply: Reply = job.get(timeout=20)
    return reply


def test_tls_with_a_private_authority(tls_server: str, certificate: Path) -> None:
    """Gateways of a launch have certificates of the house."""
    connection = Connection(tls_server, {}, ClientOptions(ca_file=certificate))
    reply = in_hub(lambda: fetch(connection, Request(path="/", body=b"{}"), perf_counter))
    assert (reply.error, reply.error_detail, reply.chunks) == (None, "", 1)


def test_an_unknown_authority_is_named(tls_server: str) -> None:
    """The other side is there; it is the certificate that nobody trusts."""
    connection = Connection(tls_server, {})
    reply = in_hub(lambda: fetch(connection, Request(path="/", body=b"{}"), perf_counter))
    assert reply.error == "tls_certificate"
    assert "self-signed" in reply.error_detail


def test_a_handshake_without_an_answer_is_no_connection(truth_server: str) -> None:
    """`https` was given for a port that speaks `http`, and waits for the rest of a request."""
    url = truth_server.replace("http:", "https:")
    connection = Connection(url, {}, ClientOptions(connect_timeout_s=0.5))
    reply = in_hub(lambda: fetch(connection, Request(path="/", body=b"{}"), perf_counter))
    assert reply.error == "timeout_connect"


def test_the_tls_context_is_made_once() -> None:
    """Reading the authorities for each connection takes tens of milliseconds of all streams."""
    assert tls_context(None) is tls_context(None)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_useless_ca_file_is_refused_at_once(tmp_path: Path, content: str | None) -> None:
    """Not by the first request, thousands of times."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"client\.ca_file: .*Give a PEM file"):
        check_ca_file(ClientOptions(ca_file=path))


def test_a_name_without_an_address() -> None:
    """The `.invalid` domain never has one."""
    connection = Connection("http://gateway.invalid", {}, ClientOptions(connect_timeout_s=5.0))
    reply = in_hub(lambda: fetch(connection, Request(path="/", body=b"{}"), perf_counter))
    assert reply.error in {"dns", "timeout_connect"}  # without a network the lookup may hang
