"""Answer one request with bytes that no HTTP library would send, until the test is over."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Answer = Callable[[socket.socket, Event], None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Answer one request as told, until the block ends."""
    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    answer(connection, over)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join(timeout=10)


def drip(connection: socket.socket, over: Event) -> None:
    while not over.wait(0.02):
        connection.sendall(b"X-A: b\r\n")


def dripped_head(connection: socket.socket, over: Event) -> None:
    connection.sendall(HEAD)
    drip(connection, over)


def endless_body(connection: socket.socket, over: Event) -> None:
    connection.sendall(HEAD + b"\r\n")
    while not over.is_set():
        connection.sendall(b" " * 65_536)


def dripped_body(connection: socket.socket, over: Event) -> None:
    connection.sendall(HEAD + b"\r\n")
    drip(connection, over)


def saying(body: bytes) -> Answer:
    def answer(connection: socket.socket, _: Event) -> None:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return answer
