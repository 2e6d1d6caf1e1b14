"""Claims about replaying recorded sessions."""

from __future__ import annotations

from array import array
from itertools import combinations, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.prompt.prompts import Frame, Message
from loadtest.prompt.words import TOKEN_BYTES, Vocabulary
from loadtest.replay.block_tree import BlockTree, BlockWords
from loadtest.replay.formats import Source, load_traces
from loadtest.replay.options import ReplayOptions
from loadtest.replay.recording import Call, Trace
from loadtest.replay.traces import Craft, TraceTraffic
from loadtest.traffic.arrivals import POISSON
from loadtest.traffic.sessions import Scale, Seeds, Step

RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "traces" / "kv-cache-tester"
SCALE = Scale(tokens=16.0, time=60.0)
WORDS_PER_BLOCK = 4

needs_recordings = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="needs the recorded sessions in ../shared/data/traces"
)


def words(messages: list[Message] | tuple[Message, ...]) -> bytes:
    return b"".join(m.reasoning.tokens + m.content.tokens for m in messages)


def common(a: bytes, b: bytes) -> int:
    """Count the words that two prompts start with alike."""
    length = 0
    width = TOKEN_BYTES
    while a[length : length + width] == b[length : length + width] != b"":
        length += width
    return length // width


def common_blocks(a: list[int], b: list[int]) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def craft(vocabulary: Vocabulary, scale: Scale = SCALE) -> Craft:
    return Craft(vocabulary=vocabulary, scale=scale, seeds=Seeds(seed=1, salt="t"))


def play(
    trace: Trace, vocabulary: Vocabulary, number: int = 0, options: ReplayOptions | None = None
) -> list[Step]:
    return list(TraceTraffic([trace], craft(vocabulary), options).session(number))


def recording(name: str) -> Trace:
    return load_traces(Source(RECORDINGS / f"{name}.json"))[0]


def ids_of(trace: Trace) -> list[list[int]]:
    """Give the whole row of ids of each call."""
    latest: dict[str, list[int]] = {}
    rows = []
    for call in trace.calls:
        latest[call.agent] = latest.get(call.agent, [])[: call.keep] + list(call.blocks)
        rows.append(latest[call.agent])
    return rows


@needs_recordings
@pytest.mark.parametrize("name", ["trace_0026", "trace_0693", "trace_0616", "trace_0291"])
def test_prompts_share_the_words_of_the_blocks_they_shared(
    vocabulary: Vocabulary, name: str
) -> None:
    """The replay's cache behaviour is the recording's: same common prefix, block by block.

    Two different blocks, or two tails, may start with the same word by chance.
    """
    trace = recording(name)
    prompts = [words(step.messages) for step in play(trace, vocabulary)]
    ids = ids_of(trace)
    for (a, a_ids), (b, b_ids) in combinations(zip(prompts, ids, strict=True), 2):
        shared = common_blocks(a_ids, b_ids) * WORDS_PER_BLOCK
        assert shared <= common(a, b) <= shared + 2


@needs_recordings
@pytest.mark.parametrize("name", ["trace_0693", "trace_0291"])
def test_prompts_share_whole_tokens_tags_included(
    vocabulary: Vocabulary, frame: Frame, name: str
) -> None:
    """A message never ends inside a prefix that two recordings shared."""
    trace = recording(name)
    prompts = [frame.tokens(step.messages) for step in play(trace, vocabulary)]
    ids = ids_of(trace)
    for (a, a_ids), (b, b_ids) in combinations(zip(prompts, ids, strict=True), 2):
        assert common(a, b) >= common_blocks(a_ids, b_ids) * WORDS_PER_BLOCK


@needs_recordings
def test_lengths_are_those_of_the_recording(vocabulary: Vocabulary) -> None:
    """A prompt has its recorded length over the token scale, to a block's rounding."""
    trace = recording("trace_0693")
    for step, call in zip(play(trace, vocabulary), trace.calls, strict=True):
        sent = len(words(step.messages)) // TOKEN_BYTES
        assert abs(sent - call.input_tokens / SCALE.tokens) <= WORDS_PER_BLOCK


@needs_recordings
def test_two_plays_share_only_tools_and_system_prompt(vocabulary: Vocabulary) -> None:
    """Else a second user of the same recording would find a first one's work in the cache."""
    trace = recording("trace_0693")
    one, two = (words(play(trace, vocabulary, number)[0].messages) for number in (0, 1))
    shared = len(trace.system[0]) * WORDS_PER_BLOCK
    assert shared <= common(one, two) <= shared + 2


@needs_recordings
def test_subagents_share_their_parents_words_under_their_own_session(
    vocabulary: Vocabulary,
) -> None:
    """A fork of the parent inherits its prefix; the router must know whose child it is."""
    steps = play(recording("trace_0291"), vocabulary)
    children = [step for step in steps if step.kind == "subagent"]
    assert {step.parent for step in children} == {"t-0"}
    assert len({step.session for step in children}) == 2


@needs_recordings
def test_turns_of_one_agent_are_numbered_from_one(vocabulary: Vocabulary) -> None:
    """Latency by turn needs it."""
    steps = play(recording("trace_0291"), vocabulary)
    parent = [step.turn for step in steps if step.parent is None]
    assert parent == list(range(1, len(parent) + 1))


@needs_recordings
def test_every_recording_can_be_framed(vocabulary: Vocabulary, frame: Frame) -> None:
    """The frame knows each pair of neighbours that a replay makes, and prompts end with a user."""
    traces = load_traces(Source(RECORDINGS))
    source = TraceTraffic(traces, craft(vocabulary, Scale(tokens=256.0, time=1.0)))
    for number in range(len(traces)):
        for step in source.session(number):
            assert frame.tokens(step.messages)
            assert step.messages[-1].role == "user"


@needs_recordings
def test_the_warm_prefix_is_the_start_of_the_first_prompt(
    vocabulary: Vocabulary, frame: Frame
) -> None:
    """What is warmed before the test must be what the sessions then send."""
    trace = recording("trace_0693")
    source = TraceTraffic([trace], craft(vocabulary))
    assert next(source.session(0)).messages[0] == source.shared()[0]


ids_lists = st.lists(st.integers(0, 2), max_size=12)


def tree(vocabulary: Vocabulary, token_scale: float) -> BlockTree:
    blocks = BlockWords(vocabulary=vocabulary, block_size=64, token_scale=token_scale)
    return BlockTree(words=blocks, system=[array("Q", [1, 2])], shared_key="s", private_key="p")


@given(st.lists(st.tuples(ids_lists, st.integers(0, 5)), min_size=2, max_size=6))
def test_any_branching_keeps_shared_prefixes(
    vocabulary: Vocabulary, prompts: list[tuple[list[int], int]]
) -> None:
    """Compaction, forks and repeats are all just prompts that leave the others at some block."""
    blocks = tree(vocabulary, 16.0)
    texts = [words(blocks.messages(array("Q", ids), answer)) for ids, answer in prompts]
    for (a, (a_ids, _)), (b, (b_ids, _)) in combinations(zip(texts, prompts, strict=True), 2):
        assert common(a, b) >= common_blocks(a_ids, b_ids) * WORDS_PER_BLOCK


@given(st.lists(st.tuples(ids_lists, st.integers(0, 5)), max_size=6))
def test_any_branching_can_be_framed(
    vocabulary: Vocabulary, frame: Frame, prompts: list[tuple[list[int], int]]
) -> None:
    """No order of prompts makes two answers meet."""
    blocks, tail = (
        tree(vocabulary, 16.0),
        Message(role="user", content=vocabulary.draw(Seeds(seed=1, salt="").lengths(), 1)),
    )
    for ids, answer in prompts:
        assert frame.tokens([*blocks.messages(array("Q", ids), answer), tail])


@given(st.sampled_from([1.0, 16.0, 24.0, 64.0, 100.0, 1000.0]), st.integers(0, 60))
def test_a_scale_that_does_not_divide_spreads_its_words(
    vocabulary: Vocabulary, scale: float, count: int
) -> None:
    """Any scale gives the right length in total, also one with less than a word per block."""
    sent = len(words(tree(vocabulary, scale).messages(array("Q", range(count)), 0))) // TOKEN_BYTES
    assert sent == int(count * 64 / scale)


@given(st.lists(st.tuples(ids_lists, st.integers(0, 5)), min_size=1, max_size=6))
def test_a_prompt_that_comes_again_is_the_same_messages(
    vocabulary: Vocabulary, prompts: list[tuple[list[int], int]]
) -> None:
    """What is cut later must not change what was sent: words follow from ids alone."""
    blocks = tree(vocabulary, 16.0)
    for ids, answer in prompts:
        blocks.messages(array("Q", ids), answer)
    for ids, answer in prompts:
        assert words(blocks.messages(array("Q", ids), answer)) == words(
            tree(vocabulary, 16.0).messages(array("Q", ids), answer)
        )


@needs_recordings
def test_the_history_of_a_prompt_is_the_same_objects(vocabulary: Vocabulary) -> None:
    """Whoever renders prompts may keep what it made of a message."""
    one, two = play(recording("trace_0693"), vocabulary)[:2]
    kept = [a is b for a, b in zip(one.messages[:-1], two.messages, strict=False)]
    assert kept == [True] * len(kept)


@needs_recordings
def test_a_start_in_the_middle_resumes_with_the_whole_history(vocabulary: Vocabulary) -> None:
    """AgentX starts its sessions between 25 % and 75 % of their time."""
    trace = recording("trace_0739")
    steps = play(trace, vocabulary)
    middle = play(trace, vocabulary, 0, ReplayOptions(start_from=0.25, start_to=0.75))
    skipped = len(steps) - len(middle)
    assert skipped > 0
    assert (middle[0].kind, middle[0].turn, middle[0].gap_s) == ("resume", 1, 0.0)
    assert middle[0].messages == steps[skipped].messages
    assert [step.gap_s for step in middle[1:]] == [step.gap_s for step in steps[skipped + 1 :]]
    share = trace.calls[skipped].at_s / trace.calls[-1].at_s
    assert 0.25 <= share <= 0.8


@needs_recordings
def test_each_session_starts_at_a_share_of_its_own(vocabulary: Vocabulary) -> None:
    """Else all would be at the same place of their work at once."""
    options = ReplayOptions(start_from=0.0, start_to=0.9)
    trace = recording("trace_0739")
    source = TraceTraffic([trace], craft(vocabulary), options)
    lengths = {len(next(source.session(number)).messages) for number in range(8)}
    assert len(lengths) > 4


@needs_recordings
def test_pauses_are_capped_in_the_time_of_the_recording(vocabulary: Vocabulary) -> None:
    """A night's pause would else end a replay; the scale comes after."""
    trace = recording("trace_0596")
    assert max(call.gap_s for call in trace.calls) > 300
    capped = play(trace, vocabulary, 0, ReplayOptions(idle_cap_s=300))
    assert max(step.gap_s for step in capped) == 300 / SCALE.time
    none = play(trace, vocabulary, 0, ReplayOptions(pauses=False))
    assert {step.gap_s for step in none} == {0.0}


@needs_recordings
def test_a_replay_once_ends_after_the_last_recording(vocabulary: Vocabulary) -> None:
    """A comparison wants each session once."""
    traces = load_traces(Source(RECORDINGS))
    options = ReplayOptions(loop=False, max_sessions=2)
    source = TraceTraffic(traces, craft(vocabulary), options)
    assert next(source.session(1)).session == "t-1"
    assert list(source.session(2)) == []
    assert source.most_sessions == 2


def single(name: str, start_s: float | None) -> Trace:
    """Make a recording of one call."""
    call = Call(
        agent="", at_s=0.0, gap_s=0.0, input_tokens=200, output_tokens=7, after_tool=False,
        keep=0, blocks=array("Q", [1, 2]),
    )  # fmt: skip
    return Trace(name=name, calls=(call,), block_size=64, start_s=start_s)


def test_sessions_of_a_replay_arrive_as_recorded_pass_after_pass(vocabulary: Vocabulary) -> None:
    """Session n is the n-th by time, also when the file has another order; times are scaled."""
    traces = [single("late", 360.0), single("first", 0.0), single("second", 60.0)]
    source = TraceTraffic(traces, craft(vocabulary))
    gaps_s = islice(source.arrivals.gaps_s(Seeds(seed=1, salt="").lengths(), 1 / 3), 7)
    assert source.arrivals.own_rate_per_s == pytest.approx(1 / 3)
    assert list(gaps_s) == pytest.approx([3.0, 1.0, 5.0, 3.0, 1.0, 5.0, 3.0])


@pytest.mark.parametrize("starts", [(None, None), (0.0, None), (5.0, 5.0), (5.0,)])
def test_sessions_without_recorded_starts_arrive_at_random(
    vocabulary: Vocabulary, starts: tuple[float | None, ...]
) -> None:
    """There is no pattern to repeat, and no rate."""
    source = TraceTraffic([single(f"{at}", at) for at in starts], craft(vocabulary))
    assert source.arrivals == POISSON
    assert source.arrivals.own_rate_per_s is None


def test_sessions_of_one_set_share_the_blocks_that_mean_the_same(vocabulary: Vocabulary) -> None:
    """Tags in the middle of what two sessions share would end their sharing: one message each."""
    calls = [
        Call(
            agent="", at_s=0.0, gap_s=0.0, input_tokens=200, output_tokens=7, after_tool=False,
            keep=0, blocks=array("Q", ids), tail_id=tail,
        )
        for ids, tail in (([5, 6, 7], 9), ([5, 6, 8], 9))
    ]  # fmt: skip
    traces = [
        Trace(name=name, calls=(call,), block_size=64, scope="set")
        for name, call in zip("ab", calls, strict=True)
    ]
    source = TraceTraffic(traces, craft(vocabulary, Scale(tokens=1.0, time=1.0)))
    one, two = (next(source.session(number)).messages for number in (0, 1))
    assert (len(one), len(two), source.shared()) == (1, 1, [])
    assert 128 <= common(words(one), words(two)) <= 130
    assert words(one)[-8 * TOKEN_BYTES :] == words(two)[-8 * TOKEN_BYTES :]
