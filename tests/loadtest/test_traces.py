"""Claims about replaying recorded sessions."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.block_tree import BlockTree, BlockWords
from loadtest.prompts import Frame, Message
from loadtest.recordings import Trace, load_traces
from loadtest.traces import TraceTraffic
from loadtest.traffic import Scale, Seeds, Step
from loadtest.words import TOKEN_BYTES, Vocabulary

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


def play(trace: Trace, vocabulary: Vocabulary, number: int = 0) -> list[Step]:
    return list(TraceTraffic([trace], vocabulary, SCALE, Seeds(seed=1, salt="t")).session(number))


def recording(name: str) -> Trace:
    return load_traces(RECORDINGS / f"{name}.json")[0]


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
    ids = [call.hash_ids for _, call in trace.calls]
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
    ids = [call.hash_ids for _, call in trace.calls]
    for (a, a_ids), (b, b_ids) in combinations(zip(prompts, ids, strict=True), 2):
        assert common(a, b) >= common_blocks(a_ids, b_ids) * WORDS_PER_BLOCK


@needs_recordings
def test_lengths_are_those_of_the_recording(vocabulary: Vocabulary) -> None:
    """A prompt has its recorded length over the token scale, to a block's rounding."""
    trace = recording("trace_0693")
    for step, (_, call) in zip(play(trace, vocabulary), trace.calls, strict=True):
        sent = len(words(step.messages)) // TOKEN_BYTES
        assert abs(sent - call.input_tokens / SCALE.tokens) <= WORDS_PER_BLOCK


@needs_recordings
def test_two_plays_share_only_tools_and_system_prompt(vocabulary: Vocabulary) -> None:
    """Else a second user of the same recording would find a first one's work in the cache."""
    trace = recording("trace_0693")
    one, two = (words(play(trace, vocabulary, number)[0].messages) for number in (0, 1))
    shared = len(trace.system_ids) * WORDS_PER_BLOCK
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
    traces = load_traces(RECORDINGS)
    source = TraceTraffic(
        traces, vocabulary, Scale(tokens=256.0, time=1.0), Seeds(seed=1, salt="t")
    )
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
    source = TraceTraffic([trace], vocabulary, SCALE, Seeds(seed=1, salt="t"))
    assert next(source.session(0)).messages[0] == source.shared()[0]


ids_lists = st.lists(st.integers(0, 2), max_size=12)


def tree(vocabulary: Vocabulary, token_scale: float) -> BlockTree:
    blocks = BlockWords(vocabulary=vocabulary, block_size=64, token_scale=token_scale)
    return BlockTree(words=blocks, system_ids=(1, 2), shared_key="s", private_key="p")


@given(st.lists(st.tuples(ids_lists, st.integers(0, 5)), min_size=2, max_size=6))
def test_any_branching_keeps_shared_prefixes(
    vocabulary: Vocabulary, prompts: list[tuple[list[int], int]]
) -> None:
    """Compaction, forks and repeats are all just prompts that leave the others at some block."""
    blocks = tree(vocabulary, 16.0)
    texts = [words(blocks.messages(ids, answer)) for ids, answer in prompts]
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
        assert frame.tokens([*blocks.messages(ids, answer), tail])


@given(st.sampled_from([1.0, 16.0, 24.0, 64.0, 100.0, 1000.0]), st.integers(0, 60))
def test_a_scale_that_does_not_divide_spreads_its_words(
    vocabulary: Vocabulary, scale: float, count: int
) -> None:
    """Any scale gives the right length in total, also one with less than a word per block."""
    sent = len(words(tree(vocabulary, scale).messages(list(range(count)), 0))) // TOKEN_BYTES
    assert sent == int(count * 64 / scale)
