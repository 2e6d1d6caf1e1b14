"""Shares of sessions: each session is with one set, and changes it once at most."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.session_shares import beside, never_less, shares_of
from fleet.traffic_shift import TOTAL_WEIGHT

OLD, NEW = "set-old", "set-new"
names = st.sampled_from(["set-a", "set-b", "set-c"])


def owners(shares: dict[str, int], elsewhere: int = 0) -> list[str]:
    """Give the owner of each hash as Envoy finds it: cluster by cluster, elsewhere the second."""
    weights = beside(shares, elsewhere)
    first, *others = sorted(weights)
    order = [(first, weights[first]), ("", elsewhere), *((name, weights[name]) for name in others)]
    found = [name for name, weight in order for _ in range(weight)]
    assert len(found) == TOTAL_WEIGHT
    return found


@given(serving=st.dictionaries(names, st.integers(0, 2000), min_size=1))
def test_shares_are_those_of_the_replicas(serving: dict[str, int]) -> None:
    """None goes to a set of which nothing serves, and a canary gets some of very many."""
    shares, total = dict(shares_of(serving)), sum(serving.values())
    if not total:
        assert shares == {}
        return
    assert sum(shares.values()) == TOTAL_WEIGHT
    for name, count in serving.items():
        assert (shares[name] > 0) == (count > 0)
        assert shares[name] == pytest.approx(TOTAL_WEIGHT * count / total, abs=len(serving))


@settings(max_examples=20, deadline=None)
@given(data=st.data(), replicas=st.integers(2, 18), flip=st.booleans())
def test_a_session_moves_once_at_most_on_the_way_out_and_on_the_way_back(
    data: st.DataObject, replicas: int, flip: bool
) -> None:
    """Whatever the steps, and whichever name comes first: both sides of each drain are written."""
    old, new = (NEW, OLD) if flip else (OLD, NEW)
    done, before, moves = 0, owners({old: TOTAL_WEIGHT, new: 0}), Counter[int]()
    steps = []
    while done < replicas:
        size = data.draw(st.integers(1, max(1, (replicas - done) // 2)))
        steps.append(size)
        done += size
    ways = [(steps, new, old), (list(reversed(steps)), old, new)]
    for way, to, source in ways:
        counts = {source: replicas, to: 0}
        shares = {source: TOTAL_WEIGHT, to: 0}
        moves.clear()
        for size in way:
            counts[source] -= size
            for served in (size, 0):  # written before the drain, and after it serves
                wanted = shares_of(counts) or shares
                shares = dict(never_less(wanted, shares, to))
                now = owners(shares)
                for slot, (was, is_now) in enumerate(zip(before, now, strict=True)):
                    assert is_now in (was, to)
                    moves[slot] += was != is_now
                before = now
                counts[to] += served
        assert set(before) == {to}
        assert max(moves.values()) == 1


@given(
    new=st.integers(0, TOTAL_WEIGHT),
    slices=st.lists(st.integers(0, TOTAL_WEIGHT), min_size=2, max_size=6).map(sorted),
)
def test_what_goes_elsewhere_takes_from_both_and_changes_nobodys_set(
    new: int, slices: list[int]
) -> None:
    """`traffic drain` while two sets serve: who stays, stays with his set, and both keep theirs."""
    shares = {OLD: TOTAL_WEIGHT - new, NEW: new}
    before = owners(shares, slices[0])
    for elsewhere in slices[1:]:
        now = owners(shares, elsewhere)
        changed = {(a, b) for a, b in zip(before, now, strict=True) if a != b}
        assert changed <= {(OLD, ""), (NEW, "")}
        here = TOTAL_WEIGHT - elsewhere
        assert abs(now.count(NEW) - here * new / TOTAL_WEIGHT) <= 1
        before = now


def test_a_replica_that_is_lost_does_not_send_sessions_back() -> None:
    """Only when none is left of a set, they have to go."""
    before = {OLD: 500, NEW: 500}
    assert never_less({OLD: 667, NEW: 333}, before, NEW) == before
    assert never_less({OLD: 1000, NEW: 0}, before, NEW) == {OLD: 1000, NEW: 0}
    assert never_less({OLD: 250, NEW: 750}, before, NEW) == {OLD: 250, NEW: 750}
