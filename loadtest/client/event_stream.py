"""Split a byte stream into server-sent events, whatever the cuts between the reads.

An event may end anywhere, also inside a CRLF or a UTF-8 character. Most reads bring exactly one
`data:` event: those are recognised without splitting lines.
"""

from __future__ import annotations

from typing import NamedTuple

_CR = 0x0D
_LF = 0x0A


class Event(NamedTuple):
    """Hold one server-sent event: its name, its data lines joined, its comment lines joined."""

    name: str = ""
    data: bytes | None = None
    comment: bytes | None = None


class OversizedEventError(Exception):
    """An event is larger than the memory set aside for it."""


class EventParser:
    """Take chunks, give events; holds at most `max_bytes` of an unfinished one."""

    def __init__(self, max_bytes: int = 16 << 20) -> None:
        self._max_bytes = max_bytes
        self._rest: list[bytes] = []  # of an unfinished line
        self._held_bytes = 0
        self._after_cr = False
        self._name = b""
        self._data: list[bytes] = []
        self._comments: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes. Raises OversizedEventError."""
        if self._held_bytes == 0 and not self._after_cr and _is_one_event(chunk):
            return [Event("", chunk[6:-2])]
        if self._after_cr and chunk:
            # A CR ended the last chunk: its LF, if any, belongs to the same line end.
            chunk = chunk[1:] if chunk[0] == _LF else chunk
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk[-1] == _CR
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:  # joined once its end is there: a huge line costs no squares
            self._hold(chunk)
            return []
        *lines, rest = b"".join((*self._rest, chunk)).split(b"\n")
        self._held_bytes -= sum(map(len, self._rest))
        self._rest.clear()
        events: list[Event] = []
        for line in lines:
            if line:
                self._take(line)
            elif self._data or self._comments or self._name:
                events.append(self._finish())
        if rest:
            self._hold(rest)
        return events

    def _hold(self, rest: bytes) -> None:
        self._rest.append(rest)
        self._count(len(rest))

    def _count(self, added: int) -> None:
        self._held_bytes += added
        if self._held_bytes > self._max_bytes:
            raise OversizedEventError(f"an event of more than {self._max_bytes:,} bytes")

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not name:
            self._comments.append(value)
        elif name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value
        else:
            return
        self._count(len(value) + 1)  # an empty line of data is something held, too

    def _finish(self) -> Event:
        event = Event(
            name=self._name.decode("utf-8", "replace"),
            data=b"\n".join(self._data) if self._data else None,
            comment=b"\n".join(self._comments) if self._comments else None,
        )
        self._name, self._data, self._comments = b"", [], []
        self._held_bytes = 0
        return event


def _is_one_event(chunk: bytes) -> bool:
    return (
        chunk.startswith(b"data: ")
        and chunk.find(b"\n") == len(chunk) - 2
        and chunk.endswith(b"\n\n")
        and b"\r" not in chunk
    )
