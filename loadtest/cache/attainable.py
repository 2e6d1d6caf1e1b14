"""Count what a cache could have kept of the outlines of sessions, by the rule it keeps it by.

The rules are those of the facts on hybrid models: a hit must end where a state of the model was
kept. Nobody else's load, no capacity: an upper bound for each rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.traffic.outline import Call, Shared

PROMPT_ENDS = "prompt ends"
FLOORED = "prompt ends, 128-token floor"
COLD = "prompt ends, shared prefix cold"
ANSWERS = "prompt and answer ends"
_FLOOR = 128  # tokens: the unit in which prefixes are matched (`--prefix-match-unit`)
_IDLE_RULES = tuple((f"idle eviction {minutes} min", minutes * 60.0) for minutes in (1, 5, 15, 60))
_BLOCK_RULES = tuple((f"only multiples of {size}", size) for size in (4096, 8192, 32768))


class Reusable(NamedTuple):
    """Hold what a cache that keeps prompt ends could have of one prompt, in tokens."""

    warm: int
    """When somebody has sent the shared prefix before."""
    cold: int
    """When the session alone fills the cache."""


@dataclass(slots=True)
class _Cached:
    """Hold what one agent has sent: token totals at the ends of its messages, and its states."""

    totals: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    """Messages after which a state was kept, in order: the ends of prompts."""
    computed: int = 0
    """Messages that stand as the server has computed them: not an answer without its reasoning."""
    used_s: float | None = None

    def cut(self, kept: int) -> None:
        del self.totals[kept:]
        self.computed = min(self.computed, kept)
        while self.states and self.states[-1] > kept:
            self.states.pop()

    def copy(self) -> _Cached:
        return _Cached(list(self.totals), list(self.states), self.computed, self.used_s)


class HitCount:
    """Add up the tokens that could have been hits, by rule."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self._hits: dict[str, int] = dict.fromkeys(
            (
                PROMPT_ENDS,
                FLOORED,
                COLD,
                ANSWERS,
                *(rule for rule, _ in _IDLE_RULES + _BLOCK_RULES),
            ),
            0,
        )
        self.start_session()

    def start_session(self) -> None:
        """Forget the session before: nothing but the shared prefix is common to two sessions."""
        self._agents: dict[str, _Cached] = {}
        self._seen: set[Shared] = set()
        self._now_s = 0.0

    def missed(self, rule: str) -> int:
        """Count the prompt tokens that could not be hits."""
        return self.prompt_tokens - self._hits[rule]

    def rates(self) -> dict[str, float]:
        """Give the token-weighted hit rate by rule."""
        return {rule: hits / self.prompt_tokens for rule, hits in self._hits.items()}

    def add(self, call: Call) -> Reusable:
        """Count one call, and give what of its prompt could be a hit."""
        self._now_s += call.gap_s
        cached = self._agent(call)
        cached.cut(call.kept)
        same = cached.totals[cached.computed - 1] if cached.computed else 0
        ended = cached.totals[cached.states[-1] - 1] if cached.states else 0
        total = cached.totals[-1] if cached.totals else 0
        for piece in call.added:
            total += piece.size
            cached.totals.append(total)
        shared = cached.totals[0]  # the first message is the shared prefix
        ended = max(ended, shared)
        found = Reusable(warm=ended, cold=ended if self._is_known(call) else 0)
        self._count(same=max(same, shared), found=found)
        self._count_idle(cached, ended=ended, shared=shared)
        self.prompt_tokens += call.prompt_tokens
        cached.computed = len(cached.totals)
        cached.states.append(cached.computed)
        cached.used_s = self._now_s
        if call.answer is not None:
            cached.totals.append(total + call.answer.size)
            cached.computed += call.answer.size == call.output_tokens
        return found

    def _is_known(self, call: Call) -> bool:
        """Say whether this session has sent the shared prefix of a call before."""
        known = call.prefix in self._seen
        self._seen.add(call.prefix)
        return known

    def _count(self, *, same: int, found: Reusable) -> None:
        hits = self._hits
        hits[PROMPT_ENDS] += found.warm
        hits[FLOORED] += found.warm // _FLOOR * _FLOOR
        hits[COLD] += found.cold
        hits[ANSWERS] += same
        for rule, size in _BLOCK_RULES:
            hits[rule] += same // size * size

    def _count_idle(self, cached: _Cached, *, ended: int, shared: int) -> None:
        idle_s = 0.0 if cached.used_s is None else self._now_s - cached.used_s
        for rule, limit_s in _IDLE_RULES:
            self._hits[rule] += ended if idle_s <= limit_s else shared

    def _agent(self, call: Call) -> _Cached:
        known = self._agents.get(call.agent)
        if known is None:
            known = self._agents[""].copy() if call.forks else _Cached()
            self._agents[call.agent] = known
        return known
