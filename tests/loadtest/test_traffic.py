"""Claims about the generated sessions."""

from __future__ import annotations

import statistics
from itertools import islice, pairwise

import pytest

from fleet.errors import ConfigError
from loadtest.profile_schema import Profile
from loadtest.profiles import known_profiles, load_profile
from loadtest.prompts import Frame, Message
from loadtest.traffic import ProfileTraffic, Scale, Seeds, Step
from loadtest.words import Vocabulary

SCALE = Scale(tokens=100.0, time=60.0)


@pytest.fixture(scope="module")
def profile() -> Profile:
    """Load the default profile."""
    return load_profile("interactive_agent")


def traffic(profile: Profile, vocabulary: Vocabulary, **seeds: object) -> ProfileTraffic:
    chosen = Seeds(**{"seed": 1, "salt": "t", **seeds})  # type: ignore[arg-type]
    return ProfileTraffic(profile, vocabulary, SCALE, chosen)


@pytest.fixture(scope="module")
def sessions(profile: Profile, vocabulary: Vocabulary) -> list[list[Step]]:
    """Generate 300 sessions, the long tails cut."""
    source = traffic(profile, vocabulary)
    return [list(islice(source.session(number), 40)) for number in range(300)]


def size(message: Message) -> int:
    return len(message.content) + len(message.reasoning)


def test_a_seed_repeats_its_sessions(profile: Profile, vocabulary: Vocabulary) -> None:
    """Two runs with one seed can be compared."""
    first, again = (list(traffic(profile, vocabulary).session(7)) for _ in range(2))
    assert first == again


def test_another_salt_changes_words_and_nothing_else(
    profile: Profile, vocabulary: Vocabulary
) -> None:
    """A second run must send the same load and find nothing of the first in a cache."""

    def shape(steps: list[Step]) -> list[object]:
        return [(s.kind, s.gap_s, s.output_tokens, [size(m) for m in s.messages]) for s in steps]

    one, two = (list(traffic(profile, vocabulary, salt=salt).session(7)) for salt in ("a", "b"))
    assert shape(one) == shape(two)
    assert one[0].messages[0].content != two[0].messages[0].content


def test_a_call_extends_the_one_before(sessions: list[list[Step]]) -> None:
    """Without compaction the history only grows, which is what a prefix cache lives on."""
    for steps in sessions:
        own = [step for step in steps if step.parent is None]
        for before, after in pairwise(own):
            if after.kind != "compaction":
                assert after.messages[: len(before.messages)] == before.messages


def test_the_history_holds_the_answer_that_was_asked_for(sessions: list[list[Step]]) -> None:
    """The scripted answer has the length that the server was told to generate."""
    own = [step for step in sessions[0] if step.parent is None]
    for before, after in pairwise(own):
        if after.kind != "compaction" and before.cancel_after is None:
            answer = after.messages[len(before.messages)]
            assert (answer.role, size(answer)) == ("assistant", before.output_tokens)


def test_sessions_of_one_harness_share_their_system_prompt(sessions: list[list[Step]]) -> None:
    """Three harness versions, each byte-identical for all its sessions."""
    assert len({steps[0].messages[0].content.text for steps in sessions}) == 3


def test_the_last_message_is_never_an_answer(sessions: list[list[Step]]) -> None:
    """A server would continue it instead of answering."""
    assert {step.messages[-1].role for steps in sessions for step in steps} == {"user"}


def test_subagents_are_sessions_of_their_own(sessions: list[list[Step]]) -> None:
    """They carry their parent's id and their own prefix."""
    children = [s for steps in sessions for s in steps if s.kind == "subagent"]
    assert children
    assert all(child.session.startswith(f"{child.parent}.") for child in children)


def test_a_compaction_keeps_only_the_shared_prefix(
    profile: Profile, vocabulary: Vocabulary
) -> None:
    """Everything else misses, as it does after a real one."""
    assert profile.compaction is not None
    compaction = profile.compaction.model_copy(update={"at_tokens": 30_000})
    early = profile.model_copy(update={"compaction": compaction, "subagents": None})
    source = traffic(early, vocabulary)
    steps = [s for number in range(20) for s in islice(source.session(number), 60)]
    compacted = [step for step in steps if step.kind == "compaction"]
    assert compacted
    assert all(len(step.messages) == 2 for step in compacted)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("private_prompt_tokens", {"first"}),
        ("output_tokens", {"first", "tool", "user", "resume"}),
    ],
)
def test_medians_are_those_of_the_profile(
    sessions: list[list[Step]], profile: Profile, name: str, kinds: set[str]
) -> None:
    """Lengths are divided by the token scale and nothing else."""
    steps = [step for every in sessions for step in every if step.kind in kinds]
    values = {
        "private_prompt_tokens": [size(s.messages[1]) for s in steps if len(s.messages) == 2],
        "output_tokens": [step.output_tokens for step in steps],
    }[name]
    expected = getattr(profile, name).median / SCALE.tokens
    assert statistics.median(values) == pytest.approx(expected, rel=0.25)


def test_a_tenth_of_the_sessions_resumes_cold(sessions: list[list[Step]]) -> None:
    """The share of the profile, within what 300 draws allow."""
    resumed = sum(steps[0].kind == "resume" for steps in sessions)
    assert 12 <= resumed <= 50


def test_gaps_are_divided_by_the_time_scale(sessions: list[list[Step]], profile: Profile) -> None:
    """A tool's gap has a fixed part; no gap is below it, the median is near the profile's."""
    gaps_s = [s.gap_s * SCALE.time for every in sessions for s in every if s.kind == "tool"]
    expected = profile.tool_gap_fixed_s + profile.tool_gap_s.median
    assert min(gaps_s) >= profile.tool_gap_fixed_s
    assert statistics.median(gaps_s) == pytest.approx(expected, rel=0.25)


def test_every_prompt_can_be_framed(sessions: list[list[Step]], frame: Frame) -> None:
    """The frame knows each pair of neighbours that the traffic makes."""
    for steps in sessions[:50]:
        for step in steps:
            assert frame.tokens(step.messages)


def test_every_packaged_profile_loads() -> None:
    """A typing error in a data file must not wait for a user."""
    assert [load_profile(name).name for name in known_profiles()] == known_profiles()


def test_an_unknown_profile_names_the_known_ones() -> None:
    """The message must say what can be written instead."""
    with pytest.raises(ConfigError, match="Did you mean 'interactive_agent'"):
        load_profile("interactive_agents")
