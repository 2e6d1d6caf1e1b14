"""Hold the oracle to a slow model that is written from the definitions, for every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import ConfigError
from loadtest.cache.oracle import CacheOracle, OracleRules
from loadtest.prompt.prompts import Prompt, make_prompt

BLOCK = 2
Words = tuple[int, ...]
REGIONS = ("us", "eu")


def prompt(words: Sequence[int]) -> Prompt:
    return make_prompt(b"".join(word.to_bytes(4, "little") for word in words), BLOCK)


@dataclass
class Entry:
    snapshot: bool
    words: Words
    used: int
    used_s: float


@dataclass
class SlowCache:
    """Hold a list of whole prefixes and look at all of them every time."""

    rules: OracleRules
    unit: int
    capacity: int | None
    entries: list[Entry] = field(default_factory=list)
    uses: int = 0

    def expire(self, now_s: float) -> None:
        ttl_s = self.rules.ttl_s
        if ttl_s is not None:
            self.entries = [e for e in self.entries if now_s - e.used_s <= ttl_s]

    def holds(self, snapshot: bool, words: Words) -> bool:
        return any(e.snapshot == snapshot and e.words == words for e in self.entries)

    def resident(self, words: Words) -> int:
        depth = 0
        while (depth + 1) * self.unit <= len(words):
            if not self.holds(False, words[: (depth + 1) * self.unit]):
                break
            depth += 1
        return depth

    def usable(self, words: Words) -> int:
        depths = [
            depth
            for depth in range(self.resident(words) + 1)
            if depth * self.unit < len(words)
            and (
                self.rules.reuse == "blocks"
                or depth == 0
                or self.holds(True, words[: depth * self.unit])
            )
        ]
        return max(depths) * self.unit

    def use(self, snapshot: bool, words: Words, now_s: float) -> None:
        self.entries = [e for e in self.entries if (e.snapshot, e.words) != (snapshot, words)]
        self.entries.append(Entry(snapshot, words, self.uses, now_s))

    def size(self) -> int:
        return sum(self.rules.snapshot_cost_blocks if e.snapshot else 1 for e in self.entries)

    def store(self, words: Words, now_s: float) -> None:
        self.expire(now_s)
        self.uses += 1
        resumed, full = self.usable(words), len(words) // self.unit * self.unit
        for end in range(self.unit, full + 1, self.unit):
            self.use(False, words[:end], now_s)
        if self.rules.reuse == "snapshots":
            every = self.rules.snapshot_every
            ends = {resumed, full}
            if every:
                ends |= {end for end in range(every, full + 1, every) if end > resumed}
            for end in ends - {0}:
                self.use(True, words[:end], now_s)
        while self.capacity is not None and self.size() > self.capacity:
            # Oldest use first, then the deepest, and a snapshot before its unit.
            self.entries.remove(
                min(self.entries, key=lambda e: (e.used, -len(e.words), not e.snapshot))
            )


class SlowOracle:
    def __init__(self, rules: OracleRules) -> None:
        self.rules, self.unit = rules, rules.unit or BLOCK
        self.whole = {name: SlowCache(rules, self.unit, None) for name in REGIONS}
        self.replicas: dict[tuple[str, str], SlowCache] = {}
        self.waiting: list[tuple[str, Words]] = []

    def expire(self, now_s: float) -> None:
        for cache in (*self.whole.values(), *self.replicas.values()):
            cache.expire(now_s)

    def units(self, words: Words) -> list[Words]:
        return [words[:end] for end in range(self.unit, len(words) + 1, self.unit)]

    def send(self, region: str, words: Words, now_s: float) -> tuple[int, int, dict[str, int]]:
        self.expire(now_s)
        known = self.whole[region].resident(words)
        self.waiting += [(region, unit) for unit in self.units(words)[known:]]
        replicas = {
            worker: cache.usable(words)
            for (place, worker), cache in self.replicas.items()
            if place == region and cache.usable(words)
        }
        everywhere = max(cache.usable(words) for cache in self.whole.values())
        return self.whole[region].usable(words), everywhere, replicas

    def complete(self, region: str, words: Words, worker: str | None, now_s: float) -> None:
        self.whole[region].store(words, now_s)
        if worker is not None:
            empty = SlowCache(self.rules, self.unit, self.rules.capacity_blocks)
            self.replicas.setdefault((region, worker), empty).store(words, now_s)
        answered = [(region, unit) for unit in self.units(words)]
        self.waiting = [entry for entry in self.waiting if entry not in answered]

    def in_flight(self, region: str, words: Words, now_s: float) -> int:
        self.expire(now_s)
        depth = self.whole[region].resident(words)
        for unit in self.units(words)[depth:]:
            if self.waiting.count((region, unit)) < 2:
                break
            depth += 1
        return min(depth, (len(words) - 1) // self.unit) * self.unit


@st.composite
def all_rules(draw: st.DrawFn) -> OracleRules:
    unit = draw(st.sampled_from([BLOCK, 2 * BLOCK, 3 * BLOCK]))
    return OracleRules(
        unit=draw(st.sampled_from([None, unit])) if unit == BLOCK else unit,
        reuse=draw(st.sampled_from(["snapshots", "snapshots", "blocks"])),
        snapshot_every=draw(st.integers(0, 3)) * unit,
        snapshot_cost_blocks=draw(st.integers(0, 3)),
        capacity_blocks=draw(st.none() | st.integers(1, 20)),
        ttl_s=draw(st.none() | st.integers(1, 6)),
    )


# Conversations that grow, and branch from each other at a few places: what agents send.
LINES = ((1,) * 24, (1,) * 9 + (0,) * 15, (1,) * 13 + (0,) * 11, (0,) * 9)
conversations = st.tuples(st.sampled_from(LINES), st.integers(1, 24)).map(
    lambda drawn: drawn[0][: drawn[1]]
)

events = st.tuples(
    st.sampled_from(["send", "complete", "both"]),
    st.sampled_from(REGIONS),
    st.sampled_from(["a", "a", "b", None]),
    conversations,
    st.integers(0, 3),
)


@settings(max_examples=2000, deadline=None)
@given(all_rules(), st.lists(events, min_size=1, max_size=20))
def test_it_is_exactly_the_slow_model(rules: OracleRules, calls: list[Any]) -> None:
    """Every unit, snapshot, capacity and eviction rule together; any order of calls."""
    now_s = 0.0
    fast, slow = CacheOracle(BLOCK, rules, lambda: now_s), SlowOracle(rules)
    for what, region, worker, words, passed_s in calls:
        now_s += passed_s
        if what != "complete":
            found = fast.send(region, prompt(words))
            expected = slow.send(region, words, now_s)
            assert (found.region, found.everywhere, dict(found.replicas)) == expected
            explained = fast.in_flight(region, prompt(words))
            assert explained == slow.in_flight(region, words, now_s)
        if what != "send":
            fast.complete(region, prompt(words), worker)
            slow.complete(region, words, worker, now_s)


def test_a_snapshot_is_needed_where_the_next_turn_branches() -> None:
    """A prompt that leaves another one before its end shares tokens and no state."""
    oracle = CacheOracle(BLOCK, OracleRules(reuse="snapshots"))
    oracle.complete("us", prompt([1] * 8), "a")
    assert oracle.send("us", prompt([1] * 6 + [2] * 4)).region == 0
    assert oracle.send("us", prompt([1] * 8 + [2] * 4)).region == 8


def test_snapshots_on_the_way_serve_a_branch() -> None:
    """Every 4 tokens: the branch at 6 resumes at 4."""
    oracle = CacheOracle(BLOCK, OracleRules(reuse="snapshots", snapshot_every=4))
    oracle.complete("us", prompt([1] * 8), "a")
    assert oracle.send("us", prompt([1] * 6 + [2] * 4)).region == 4


def test_the_router_could_have_chosen_better() -> None:
    """Selected is what the chosen replica had when the prompt was sent, best what any had."""
    oracle = CacheOracle(BLOCK)
    oracle.complete("us", prompt([1] * 8), "a")
    oracle.complete("us", prompt([1] * 4), "b")
    found = oracle.send("us", prompt([1] * 12))
    assert (found.best, found.selected("a"), found.selected("b")) == (8, 8, 4)
    assert found.selected("new") == 0


@pytest.mark.parametrize(
    ("rules", "named"),
    [(OracleRules(unit=3), "oracle.unit"), (OracleRules(snapshot_every=5), "snapshot_every")],
)
def test_sizes_that_do_not_fit_are_refused(rules: OracleRules, named: str) -> None:
    """A unit that is no whole number of blocks would be rounded, and the ratio wrong."""
    with pytest.raises(ConfigError, match=named):
        CacheOracle(BLOCK, rules)
