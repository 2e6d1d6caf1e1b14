"""Hold a request's body in pieces, so that a long history is sent without being copied together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_SEGMENT_BYTES = 131_072


class Body:
    """Hold pieces: the fragments that a session's ledger keeps, and what goes around them."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self._length = sum(map(len, pieces))

    def __len__(self) -> int:
        """Count the bytes."""
        return self._length

    def __bytes__(self) -> bytes:
        """Join the pieces."""
        return b"".join(self.pieces)

    def __iter__(self) -> Iterator[bytes]:
        """Yield segments to send, none longer than 256 KiB; again from the start each time."""
        held: list[bytes] = []
        size = 0
        for piece in self.pieces:
            for start in range(0, len(piece), _SEGMENT_BYTES):  # nothing of megabytes is copied
                part = piece[start : start + _SEGMENT_BYTES]
                held.append(part)
                size += len(part)
                if size >= _SEGMENT_BYTES:
                    yield b"".join(held)
                    held.clear()
                    size = 0
        if held:
            yield b"".join(held)


def with_head(head: bytes, body: Body | bytes) -> Body:
    """Put the head of the HTTP message before its body."""
    return Body([head, body]) if isinstance(body, bytes) else Body([head, *body.pieces])
