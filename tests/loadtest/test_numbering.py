"""Claims about how processes share the sessions of one test."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.play.numbering import Numbers, Share


@given(st.integers(1, 12), st.integers(1, 50))
def test_processes_play_every_number_once(count: int, each: int) -> None:
    """A session that two play would be a cache hit that neither oracle knows of."""
    played = [
        numbers.index + round_ * numbers.count
        for numbers in (Numbers(index=index, count=count) for index in range(count))
        for round_ in range(each)
    ]
    assert sorted(played) == list(range(count * each))


def test_who_joins_later_plays_numbers_of_its_own() -> None:
    """Far above what the others reach."""
    first, second = Numbers.late(1), Numbers.late(2)
    assert first.index + 1_000_000 * first.count < second.index


@given(
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=5),
    st.lists(st.floats(0, 100), min_size=1, max_size=60),
)
def test_every_arrival_is_of_exactly_one_process_at_every_time(
    memberships: list[set[str]], dues_s: list[float]
) -> None:
    """Also while processes come and go, as long as all hear of it before it counts."""
    shares = {name: Share(name) for name in "abcdef"}
    for number, members in enumerate(memberships):
        for share in shares.values():
            share.split(sorted(members), number * 20.0)
    for number, due_s in enumerate(dues_s):
        owners = {name for name, share in shares.items() if share.is_mine(number, due_s)}
        assert len(owners) == 1
        assert owners <= memberships[min(int(due_s // 20), len(memberships) - 1)]


def test_before_the_first_split_nobody_makes_arrivals() -> None:
    """A process that is told late from when on it takes part must not repeat the past."""
    share = Share("a")
    share.split(["a"], 10.0)
    assert [share.is_mine(0, due_s) for due_s in (9.9, 10.0)] == [False, True]
