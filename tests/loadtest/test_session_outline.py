"""Claims about the outlines of sessions, whatever a profile says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import PROFILES

from loadtest.traffic.outline import Call, Dice, Piece
from loadtest.traffic.profile_schema import LogNormal, Profile
from loadtest.traffic.profiles import load_profile
from loadtest.traffic.scale import Scale, Seeds
from loadtest.traffic.session_outline import session_outline

SCALES = st.builds(Scale, tokens=st.sampled_from([1.0, 7.0, 100.0]), time=st.just(1.0))
TOOLS_GAP = LogNormal(median=0.125, sigma=0, max=0.125)
NUMBERS = st.integers(0, 1000)


def outline(profile: Profile, scale: Scale, number: int) -> list[Call]:
    lengths = Seeds(seed=3, salt="").lengths("session", number)
    return list(session_outline(profile, scale, lengths))


def histories(calls: list[Call]) -> Iterator[tuple[Call, list[Piece], list[Piece]]]:
    """Give each call, what its agent's history was before it, and the prompt."""
    agents: dict[str, list[Piece]] = defaultdict(list)
    for call in calls:
        before = agents["" if call.forks else call.agent]
        prompt = [*before[: call.kept], *call.added]
        yield call, before, prompt
        agents[call.agent] = prompt if call.answer is None else [*prompt, call.answer]


@given(PROFILES, SCALES, NUMBERS)
def test_a_call_says_how_long_its_prompt_is(profile: Profile, scale: Scale, number: int) -> None:
    """Statistics and limits trust the number, so it is the sum of what is sent."""
    for call, _, prompt in histories(outline(profile, scale, number)):
        assert call.prompt_tokens == sum(piece.size for piece in prompt)


@given(PROFILES, SCALES, NUMBERS)
def test_no_call_passes_the_context(profile: Profile, scale: Scale, number: int) -> None:
    """The session ends before it: a server would refuse the call."""
    limit = scale.length(profile.context_tokens)
    calls = outline(profile, scale, number)
    assert all(call.prompt_tokens + call.output_tokens <= limit for call in calls)


@given(PROFILES, SCALES, NUMBERS)
def test_a_history_is_only_rewritten_for_a_reason(
    profile: Profile, scale: Scale, number: int
) -> None:
    """A compaction keeps the shared prefix; a new question may take old reasoning out."""
    for call, before, _ in histories(outline(profile, scale, number)):
        if call.turn == 1 and not call.forks:
            assert call.kept == 0
        elif call.kind == "compaction":
            assert call.kept == 1
        elif call.kept < len(before) - (call.forks and call.turn == 1):
            assert (profile.reasoning_replay, call.kind) == ("within_turn", "user")
            assert before[call.kept].reasoning


@given(PROFILES, SCALES, NUMBERS)
def test_reasoning_is_replayed_as_the_profile_says(
    profile: Profile, scale: Scale, number: int
) -> None:
    """Never in a later prompt, only until the next question, or always (no rewriting: above)."""
    timed = {"tool_gap_fixed_s": 0.0, "tool_gap_s": TOOLS_GAP}
    profile = profile.model_copy(update=timed)
    for call, _, prompt in histories(outline(profile, scale, number)):
        reasoning = [piece.reasoning for piece in prompt]
        if profile.reasoning_replay == "never":
            assert not any(reasoning)
        # a word after a hang-up comes after the pause of tools, a question does not
        is_question = call.kind == "user" and call.gap_s != TOOLS_GAP.median
        if profile.reasoning_replay == "within_turn" and is_question:
            assert not any(reasoning)


@given(PROFILES, SCALES, NUMBERS)
def test_every_tool_call_gets_its_result(profile: Profile, scale: Scale, number: int) -> None:
    """In number and order: a server refuses a history with an open call."""
    for _, _, prompt in histories(outline(profile, scale, number)):
        for at, piece in enumerate(prompt):
            results = prompt[at + 1 : at + 1 + len(piece.arguments)]
            assert [result.role for result in results] == ["tool"] * len(piece.arguments)
        answers = sum(len(piece.arguments) for piece in prompt)
        assert answers == sum(piece.role == "tool" for piece in prompt)


@given(PROFILES, SCALES, NUMBERS)
def test_an_answer_has_the_length_that_was_asked_for(
    profile: Profile, scale: Scale, number: int
) -> None:
    """Reasoning, text and arguments; without the reasoning when that is not replayed."""
    for call in outline(profile, scale, number):
        assert (call.answer is None) == (call.cancel_after is not None)
        if call.answer is not None and profile.reasoning_replay != "never":
            assert call.answer.size == call.output_tokens


@given(PROFILES, SCALES, NUMBERS)
def test_a_parent_waits_for_its_subagent(profile: Profile, scale: Scale, number: int) -> None:
    """All calls of a sub-agent stand together, after a call of the parent that called a tool."""
    calls = outline(profile, scale, number)
    names = [call.agent for call in calls if call.agent]
    assert names == sorted(names, key=int)
    for before, call in pairwise(calls):
        if call.agent and call.turn == 1 and not before.agent:
            assert before.answer is not None
            assert before.answer.arguments


@given(PROFILES, SCALES, NUMBERS)
def test_a_fork_starts_from_the_prompt_of_its_parent(
    profile: Profile, scale: Scale, number: int
) -> None:
    """Where the server has kept a state; the open tool call of the answer is not in it."""
    parent: list[Piece] = []
    for call, _, prompt in histories(outline(profile, scale, number)):
        if call.forks and call.kind != "compaction":
            assert prompt[:-1] == parent
        if not call.agent:
            parent = prompt


@given(PROFILES, SCALES, NUMBERS)
def test_a_session_is_the_same_whatever_was_drawn_before(
    profile: Profile, scale: Scale, number: int
) -> None:
    """Workers that share the sessions of a run send the same bytes as one alone."""
    alone = outline(profile, scale, number)
    outline(profile, scale, number + 1)
    assert outline(profile, scale, number) == alone


@given(total=st.integers(1, 10_000), count=st.integers(1, 8), seed=st.integers(0, 1000))
def test_a_length_is_split_without_loss(total: int, count: int, seed: int) -> None:
    """Parallel calls divide the tokens of a step, and none of them is empty."""
    dice = Dice(load_profile("burst"), Scale(tokens=1, time=1), Seeds(seed=seed, salt="").lengths())
    parts = dice.parts(max(total, count), count)
    assert sum(parts) == max(total, count)
    assert len(parts) == count
    assert min(parts) >= 1


@pytest.mark.parametrize("name", ["cold_launch", "burst"])
def test_a_fresh_start_resumes_nothing(name: str) -> None:
    """No history is older than the launch."""
    profile = load_profile(name)
    kinds = {outline(profile, Scale(tokens=1, time=1), number)[0].kind for number in range(200)}
    assert kinds == {"first"}


def test_needles_reach_the_whole_context_and_not_beyond() -> None:
    """A megatoken is the point of the profile; the tags around messages need a little room."""
    profile = load_profile("needle_1m")
    scale = Scale(tokens=1, time=1)
    calls = [call for number in range(200) for call in outline(profile, scale, number)]
    assert 1_040_000 < max(call.prompt_tokens for call in calls) < 1_048_576


def test_every_question_of_the_image_profile_has_images() -> None:
    """Their tokens count in the prompt."""
    profile = load_profile("image")
    for number in range(50):
        first = outline(profile, Scale(tokens=1, time=1), number)[0]
        question = first.added[-1]
        if first.kind in {"first", "resume"}:
            assert question.images
            assert question.size == question.tokens + sum(i.tokens for i in question.images)
