"""Claims about the sessions that are inferred from shared prefixes."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.chains import chains


def rows(*ids: list[int]) -> list[array[int]]:
    return [array("Q", row) for row in ids]


def test_a_request_goes_on_with_the_one_whose_last_block_it_holds() -> None:
    """Whatever other requests share of its start."""
    assert chains(rows([1, 2], [1, 3], [1, 2, 4], [1, 3, 5, 6], [1, 2, 4, 7])) == [0, 1, 0, 1, 0]


def test_a_fork_is_a_session_of_its_own() -> None:
    """The first that goes on is the session; the second left it before its end."""
    assert chains(rows([1, 2], [1, 2, 3], [1, 2, 4])) == [0, 0, 1]


def test_a_block_that_very_many_requests_hold_joins_nothing() -> None:
    """A system prompt is the end of a short request, and the start of everyone's."""
    everyone = [row for number in range(100) for row in ([1], [1, 100 + number])]
    assert len(set(chains(rows(*everyone)))) == 200


def test_a_request_without_blocks_is_alone() -> None:
    """Shorter than a block, so nothing is known of what it shares."""
    assert chains(rows([], [], [1])) == [0, 1, 2]


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=12))
def test_sessions_are_numbered_in_order_of_their_start(ids: list[list[int]]) -> None:
    """The number decides which session plays which requests."""
    found = chains(rows(*ids))
    firsts = [number for at, number in enumerate(found) if number not in found[:at]]
    assert firsts == list(range(len(firsts)))
