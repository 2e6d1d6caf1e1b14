"""Group requests by the length of their prompt and by their turn, the same way everywhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Buckets:
    """Hold the inclusive upper edges of some buckets, and one name more than edges."""

    edges: Sequence[int]
    names: Sequence[str]

    def index(self, value: int) -> int:
        """Give the place of a value's bucket."""
        return bisect_left(self.edges, value)

    def name(self, value: int) -> str:
        """Give the name of a value's bucket."""
        return self.names[self.index(value)]


# In thousands of tokens as sent, doubling: prefill time grows with the uncached part of them.
_CONTEXT_K = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

CONTEXT = Buckets(
    edges=tuple(edge * 1000 for edge in _CONTEXT_K),
    names=(
        *(f"{low}-{high}k" for low, high in zip((0, *_CONTEXT_K), _CONTEXT_K, strict=False)),
        f"{_CONTEXT_K[-1]}k+",
    ),
)
TURN = Buckets(edges=(1, 5, 10, 25), names=("1", "2-5", "6-10", "11-25", "26+"))
