"""Claims about the generated sessions."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from loadtest.prompt.prompts import Frame, Message
from loadtest.prompt.words import Vocabulary
from loadtest.traffic.harness import TOOL_NAMES, HarnessOptions
from loadtest.traffic.profile_schema import Profile
from loadtest.traffic.profiles import load_profile
from loadtest.traffic.sessions import ProfileTraffic, Scale, Seeds, Step

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
    return message.length


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


def test_a_cancelled_answer_is_in_no_later_prompt(sessions: list[list[Step]]) -> None:
    """The client has hung up; the person says something else instead."""
    pairs = [pair for steps in sessions for pair in pairwise(steps) if pair[0].parent is None]
    cut = [(before, after) for before, after in pairs if before.cancel_after is not None]
    assert len(cut) > 20
    for before, after in cut:
        assert 0 <= (before.cancel_after or 0) < 1
        if after.kind == "user":
            assert len(after.messages) == len(before.messages) + 1


def test_pauses_are_cut_to_fit_a_run(sessions: list[list[Step]], profile: Profile) -> None:
    """A person who comes back after 14 hours comes back to no run of ours."""
    assert profile.gap_cap_s is not None
    longest_s = max(step.gap_s for steps in sessions for step in steps)
    assert longest_s == pytest.approx(profile.gap_cap_s / SCALE.time)


def test_all_subagents_of_a_harness_share_their_system_prompt(sessions: list[list[Step]]) -> None:
    """It is part of the harness, as the parent's is; one of each is warmed before a test."""
    children = [s for steps in sessions for s in steps if s.kind == "subagent" and s.turn == 1]
    assert len(children) > 20
    assert len({step.messages[0].content.text for step in children}) <= 3


def test_what_is_warmed_is_what_sessions_start_with(
    sessions: list[list[Step]], profile: Profile, vocabulary: Vocabulary
) -> None:
    """Object by object: a word that differs would warm nothing."""
    shared = {message.content.text for message in traffic(profile, vocabulary).shared()}
    assert {step.messages[0].content.text for steps in sessions for step in steps} <= shared


def test_nothing_is_warmed_for_a_cold_launch(vocabulary: Vocabulary) -> None:
    """All its sessions start on caches that hold nothing."""
    assert not traffic(load_profile("cold_launch"), vocabulary).shared()


def with_options(profile: Profile, vocabulary: Vocabulary, **options: bool) -> ProfileTraffic:
    seeds = Seeds(seed=1, salt="t")
    return ProfileTraffic(profile, vocabulary, SCALE, seeds, HarnessOptions(**options))


@pytest.fixture(scope="module")
def tool_sessions(profile: Profile, vocabulary: Vocabulary) -> list[list[Step]]:
    """Generate sessions that use tools, every answer calling two or three at once."""
    update = {"parallel_tool_calls": (0.0, 0.5, 0.5), "subagents": fork_often(profile)}
    source = with_options(profile.model_copy(update=update), vocabulary, tools=True)
    return [list(islice(source.session(number), 40)) for number in range(60)]


def fork_often(profile: Profile) -> object:
    assert profile.subagents is not None
    return profile.subagents.model_copy(update={"share": 0.2, "fork_share": 0.5})


def test_results_answer_the_calls_just_made(tool_sessions: list[list[Step]]) -> None:
    """By id and in order, else a server refuses the history; ids differ within a conversation."""
    for step in (step for steps in tool_sessions for step in steps):
        made = [call.id for message in step.messages for call in message.tool_calls]
        answered = [message.call_id for message in step.messages if message.role == "tool"]
        assert made == answered
        assert len(set(made)) == len(made)


def test_every_prompt_with_tools_can_be_framed(
    tool_sessions: list[list[Step]], tool_frame: Frame
) -> None:
    """No two texts stand beside each other whose tags are not learned from a server."""
    between = dict(tool_frame.between)
    for (before, after), tags in tool_frame.between.items():
        kind, _, place = after.partition(":read")
        for name in TOOL_NAMES if place else ():
            between[before, f"{kind}:{name}{place}"] = tags
    frame = replace(tool_frame, between=between)
    for step in (step for steps in tool_sessions[:20] for step in steps):
        assert frame.tokens(step.messages)


def test_only_declared_tools_are_called(tool_sessions: list[list[Step]]) -> None:
    """And all of them are, over many sessions."""
    called = set()
    for step in (step for steps in tool_sessions for step in steps):
        assert step.tools is not None
        names = {call.name for message in step.messages for call in message.tool_calls}
        assert names <= set(step.tools.names)
        called |= names
    assert called == set(TOOL_NAMES)


def test_sessions_of_one_harness_declare_the_same_object(tool_sessions: list[list[Step]]) -> None:
    """What a server makes of a set of tools is learned once per set."""
    own = {id(s.tools) for steps in tool_sessions for s in steps if s.parent is None}
    every = {id(step.tools) for steps in tool_sessions for step in steps}
    assert (len(own), len(every)) == (3, 6)


def test_a_fork_declares_the_tools_of_its_parent(tool_sessions: list[list[Step]]) -> None:
    """They stand at the start of the prompt that it shares."""
    forks = 0
    for steps in tool_sessions:
        parent: Step | None = None
        for step in steps:
            if step.parent is None:
                parent = step
            elif step.turn == 1 and len(step.messages) > 2 and parent is not None:
                forks += 1
                assert step.tools is parent.tools
                assert step.messages[:-1] == parent.messages
    assert forks > 20


def test_plain_words_have_the_lengths_of_tools_and_images(
    profile: Profile, vocabulary: Vocabulary
) -> None:
    """So that a server without a tool parser or eyes gets the same load."""
    with_images = profile.model_copy(update={"images": load_profile("image").images})
    plain, real = (
        [
            [sum(message.length for message in step.messages[1:]) for step in steps]
            for steps in (list(islice(source.session(number), 30)) for number in range(20))
        ]
        for source in (
            traffic(with_images, vocabulary),
            with_options(with_images, vocabulary, tools=True, images=True),
        )
    )
    assert plain == real


def test_an_image_is_sent_as_one_when_asked_for(vocabulary: Vocabulary) -> None:
    """Different ones, of the sizes of the profile, shrunk like every length."""
    source = with_options(load_profile("image"), vocabulary, images=True)
    steps = [next(source.session(number)) for number in range(20)]
    first = [step.messages[1] for step in steps if step.kind != "compaction"]
    images = [image for message in first for image in message.images]
    assert all(message.images for message in first)
    assert len({image.seed for image in images}) == len(images)
    assert {image.width for image in images} == {128, 192, 144}


def test_stripped_reasoning_leaves_the_words_of_the_answer(
    profile: Profile, vocabulary: Vocabulary
) -> None:
    """The chat template takes reasoning out at a new question and leaves the rest as it was."""
    update = {"reasoning_replay": "within_turn", "subagents": None, "compaction": None}
    stripping = profile.model_copy(update={**update, "single_turn_share": 0.0})
    stripped = 0
    for number in range(20):
        steps = list(islice(traffic(stripping, vocabulary).session(number), 60))
        for before, after in pairwise(steps):
            kept = after.messages[: len(before.messages)]
            assert [m.content for m in kept] == [m.content for m in before.messages]
            if kept != before.messages:
                stripped += 1
                assert after.kind == "user"
                assert not any(len(message.reasoning) for message in after.messages)
    assert stripped > 20


def test_tools_and_system_prompt_divide_the_shared_prefix(
    profile: Profile, vocabulary: Vocabulary
) -> None:
    """Together they are as long as the profile says, the JSON around descriptions estimated."""
    seeds, options = Seeds(seed=1, salt="t"), HarnessOptions(tools=True)
    source = ProfileTraffic(profile, vocabulary, Scale(tokens=1, time=1), seeds, options)
    prefix = source.prefixes()[0]
    assert prefix.tools is not None
    described = [tool["function"]["description"].split() for tool in prefix.tools.tools]
    words = sum(map(len, described))
    assert len(prefix.system.content) == profile.shared_prefix_tokens - profile.tools_tokens
    assert 0.95 * profile.tools_tokens < words < profile.tools_tokens
