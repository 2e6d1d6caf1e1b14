"""Shrink production traffic to the machine at hand, and name its random streams."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Shrink production traffic to the machine: lengths ÷ tokens, gaps ÷ time."""

    tokens: float
    time: float

    def length(self, tokens: float, least: int = 1) -> int:
        """Scale a token count."""
        return max(least, round(tokens / self.tokens))

    def gap_s(self, seconds: float) -> float:
        """Scale a pause."""
        return seconds / self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """Hold what decides a run's lengths (`seed`) and its words (`salt` as well)."""

    seed: int
    salt: str

    def lengths(self, *names: object) -> random.Random:
        """Make the stream of lengths and gaps of one named thing."""
        return random.Random(f"{self.seed}/{'/'.join(map(str, names))}")  # noqa: S311 - no secret

    def words(self, *names: object) -> random.Random:
        """Make the stream of words of one named thing."""
        return self.lengths("words", self.salt, *names)
