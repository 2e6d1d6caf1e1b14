"""Draw pictures from a seed: PNG files whose size in pixels is what counts, not what they show."""

from __future__ import annotations

import base64
import math
import random
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

_TOKEN_CELL = 28  # pixels per token: K3's vision tower has 14-pixel patches, merged 2x2
_CELL = 16  # pixels per cell of one colour: a screenshot compresses, noise would not
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Name a picture: the same three numbers give the same bytes."""

    width: int
    height: int
    seed: int

    @property
    def url(self) -> str:
        """Give the picture as a data URL."""
        return png_url(self.width, self.height, self.seed)

    @property
    def tokens(self) -> int:
        """Count what K3 makes of it; another server may count otherwise."""
        return math.ceil(self.width / _TOKEN_CELL) * math.ceil(self.height / _TOKEN_CELL)


@lru_cache(maxsize=_KEPT)
def png_url(width: int, height: int, seed: int) -> str:
    """Give a picture as a data URL; the same numbers give the same bytes."""
    return "data:image/png;base64," + base64.b64encode(_png(width, height, seed)).decode()


def _png(width: int, height: int, seed: int) -> bytes:
    """Write an 8-bit greyscale PNG of coloured cells (ISO/IEC 15948)."""
    rng = random.Random(f"image/{seed}")  # noqa: S311 - no secret
    columns, rows = -(-width // _CELL), -(-height // _CELL)
    lines: list[bytes] = []
    for _ in range(rows):
        cells = b"".join(bytes([level]) * _CELL for level in rng.randbytes(columns))
        lines += [b"\0" + cells[:width]] * _CELL  # each line starts with its filter: none
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(lines[:height]), 1)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
