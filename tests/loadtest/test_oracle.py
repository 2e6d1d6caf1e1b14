"""Claims about the attainable cache hit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.cache.oracle import CacheOracle
from loadtest.prompt.prompts import Prompt, make_prompt

BLOCK = 4
REGION = "us"

# Few words and short prompts, so that shared prefixes are common.
prompts = st.lists(st.integers(0, 1), min_size=1, max_size=20)


def prompt(words: list[int]) -> Prompt:
    return make_prompt(b"".join(word.to_bytes(4, "little") for word in words), BLOCK)


def answered(*sent: list[int]) -> CacheOracle:
    oracle = CacheOracle(BLOCK)
    for words in sent:
        oracle.send(REGION, prompt(words))
        oracle.complete(REGION, prompt(words))
    return oracle


def common(a: list[int], b: list[int]) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


@given(st.lists(prompts, max_size=8), prompts)
def test_attainable_is_the_longest_answered_prefix_in_whole_blocks(
    sent: list[list[int]], words: list[int]
) -> None:
    """The definition, computed the slow way; one token always remains to be computed."""
    longest = max((common(other, words) for other in sent), default=0)
    expected = min(longest // BLOCK, (len(words) - 1) // BLOCK) * BLOCK
    assert answered(*sent).send(REGION, prompt(words)).region == expected


@given(st.lists(prompts, max_size=8), prompts)
def test_attainable_is_below_the_prompt(sent: list[list[int]], words: list[int]) -> None:
    """No engine answers without computing a token."""
    assert 0 <= answered(*sent).send(REGION, prompt(words)).region < len(words)


@given(st.lists(prompts, max_size=8), prompts, prompts)
def test_more_answers_never_lower_it(
    sent: list[list[int]], more: list[int], words: list[int]
) -> None:
    """The oracle's cache forgets nothing."""
    before = answered(*sent).send(REGION, prompt(words)).region
    assert answered(*sent, more).send(REGION, prompt(words)).region >= before


@given(prompts)
def test_the_same_prompt_again_has_all_but_its_last_token(words: list[int]) -> None:
    """The server's rule: floor((P-1)/B)*B."""
    expected = (len(words) - 1) // BLOCK * BLOCK
    assert answered(words).send(REGION, prompt(words)).region == expected


@given(prompts, st.lists(st.integers(2, 3), min_size=1, max_size=9))
def test_the_next_turn_has_the_whole_blocks_of_the_last(words: list[int], new: list[int]) -> None:
    """The server's rule: floor(P_before/B)*B."""
    assert answered(words).send(REGION, prompt(words + new)).region == len(words) // BLOCK * BLOCK


@given(prompts)
def test_a_prompt_without_an_answer_does_not_count(words: list[int]) -> None:
    """Nobody can promise that a request in flight, or a failed one, left its blocks."""
    oracle = CacheOracle(BLOCK)
    oracle.send(REGION, prompt(words))
    assert oracle.send(REGION, prompt(words)).region == 0


@given(prompts)
def test_regions_share_nothing(words: list[int]) -> None:
    """No cache reaches across regions."""
    assert answered(words).send("eu", prompt(words)).region == 0


@given(prompts, prompts)
def test_a_prompt_in_flight_explains_an_early_hit(first: list[int], second: list[int]) -> None:
    """Engines may share the blocks of a request that still runs."""
    oracle = CacheOracle(BLOCK)
    for words in (first, second):
        oracle.send(REGION, prompt(words))
    shared = min(common(first, second) // BLOCK, (len(second) - 1) // BLOCK) * BLOCK
    assert oracle.in_flight(REGION, prompt(second)) == shared


def test_a_prompt_alone_in_flight_explains_nothing() -> None:
    """A prompt cannot have warmed itself."""
    oracle = CacheOracle(BLOCK)
    oracle.send(REGION, prompt([1] * 9))
    assert oracle.in_flight(REGION, prompt([1] * 9)) == 0
