"""Claims about how exactly a replay is its recording: block identity, lengths, bytes.

Without tags the figures are equal to the token. A chat template adds tags: they count as prompt
tokens, and they move the blocks of the cache against those of the recording, so a call may lose a
part of one block.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from fleet.tokenizer_file import convert, dump, read_ranks
from loadtest.cache.oracle import CacheOracle
from loadtest.prompt.prompts import Frame, Message, make_prompt
from loadtest.prompt.words import TOKEN_BYTES, Vocabulary, read_vocabulary
from loadtest.replay.formats import Source, load_traces
from loadtest.replay.recording import Trace
from loadtest.replay.statistics import trace_statistics
from loadtest.replay.traces import Craft, TraceTraffic
from loadtest.traffic.sessions import Scale, Seeds, Step

SHARED = Path(__file__).parents[4] / "shared" / "data"
AGENTX = SHARED / "traces" / "kv-cache-tester"
MOONCAKE = SHARED / "traces" / "mooncake"
KIMI = SHARED / "kimi-tokenizer"
FILES = sorted(AGENTX.glob("*.json")) + sorted(MOONCAKE.glob("*.jsonl"))

needs_traces = pytest.mark.skipif(not FILES, reason=f"needs the recordings in {SHARED}/traces")
needs_kimi = pytest.mark.skipif(not KIMI.is_dir(), reason=f"K3's tokenizer is not in {KIMI}")
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)

Render = Callable[[tuple[Message, ...]], bytes]


def untagged(messages: Iterable[Message]) -> bytes:
    return b"".join(m.reasoning.tokens + m.content.tokens for m in messages)


def source_of(traces: list[Trace], vocabulary: Vocabulary, salt: str = "t") -> TraceTraffic:
    scale, seeds = Scale(tokens=1.0, time=1.0), Seeds(seed=1, salt=salt)
    return TraceTraffic(traces, Craft(vocabulary=vocabulary, scale=scale, seeds=seeds))


def in_recorded_order(traces: list[Trace], vocabulary: Vocabulary) -> list[tuple[Trace, Step]]:
    """Play every session once, calls of all sessions by their recorded time."""
    source = source_of(traces, vocabulary)
    steps = []
    for number, trace in enumerate(traces):
        start_s = trace.start_s or 0.0
        for call, step in zip(trace.calls, source.session(number), strict=True):
            steps.append((start_s + call.at_s, trace, step))
    return [(trace, step) for _, trace, step in sorted(steps, key=lambda item: item[0])]


def sent_and_answered(oracle: CacheOracle, tokens: bytes, block_size: int) -> int:
    """Send a prompt and let it be answered; return what of it was attainable.

    One token more than the prompt: that one has always to be computed, and the recording's own
    figure knows no such rule.
    """
    prompt = make_prompt(tokens + bytes(TOKEN_BYTES), block_size)
    attainable = oracle.send("r", prompt)
    oracle.complete("r", prompt)
    return attainable.region


def oracle_tokens(steps: Iterable[tuple[Trace, Step]], render: Render) -> tuple[int, int]:
    """Send the prompts to an oracle with the recording's block size: reusable tokens, and all."""
    oracles: dict[int, CacheOracle] = {}
    reusable = total = 0
    for trace, step in steps:
        oracle = oracles.setdefault(trace.block_size, CacheOracle(trace.block_size))
        tokens = render(step.messages)
        reusable += sent_and_answered(oracle, tokens, trace.block_size)
        total += len(tokens) // TOKEN_BYTES
    return reusable, total


@needs_traces
@each_file
def test_the_oracle_finds_the_recordings_own_hit(vocabulary: Vocabulary, file: Path) -> None:
    """Equal to the token: same blocks shared, and none that were not."""
    traces = load_traces(Source(file))
    reusable, total = oracle_tokens(in_recorded_order(traces, vocabulary), untagged)
    wanted = trace_statistics(traces)
    recorded = sum(call.input_tokens for trace in traces for call in trace.calls)
    assert abs(total - recorded) <= sum(len(trace.calls) for trace in traces) * 0.1
    assert reusable == round(wanted.hit * recorded)


@needs_traces
@each_file
def test_the_tags_of_a_template_cost_less_than_a_block(
    vocabulary: Vocabulary, frame: Frame, file: Path
) -> None:
    """What the report shows as attainable is the recording's hit within a block per call."""
    traces = load_traces(Source(file))
    reusable, _ = oracle_tokens(in_recorded_order(traces, vocabulary), frame.tokens)
    statistics = trace_statistics(traces)
    recorded = sum(call.input_tokens for trace in traces for call in trace.calls)
    lost = statistics.hit * recorded - reusable
    assert lost <= traces[0].block_size * statistics.calls


@needs_traces
@pytest.mark.parametrize("file", sorted(AGENTX.glob("*.json")), ids=lambda file: file.stem)
def test_the_hit_is_that_of_the_published_table(file: Path) -> None:
    """Share of blocks seen before in the same file; the table beside the files, computed apart."""
    table = (AGENTX.parent / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"\| {file.name} \|(.*)\|", table)
    assert row is not None
    published = float(row.group(1).split("|")[6])
    assert round(trace_statistics(load_traces(Source(file))).block_hit, 4) == published


@needs_traces
@each_file
def test_prompts_have_their_recorded_length(vocabulary: Vocabulary, file: Path) -> None:
    """One word more where a recording ends with an answer: a prompt ends with a user's message."""
    traces = load_traces(Source(file))
    source = source_of(traces, vocabulary)
    for number, trace in enumerate(traces):
        for call, step in zip(trace.calls, source.session(number), strict=True):
            sent = len(untagged(step.messages)) // TOKEN_BYTES
            assert 0 <= sent - call.input_tokens <= 1


@needs_traces
def test_every_worker_and_run_sends_the_same_bytes(vocabulary: Vocabulary) -> None:
    """A session's text depends on seed, salt and its number, not on what was played before it."""
    traces = load_traces(Source(AGENTX / "trace_0291.json"))
    traces += load_traces(Source(MOONCAKE / "conversation_trace.first2000.jsonl"))[:40]

    def digests(source: TraceTraffic, numbers: Iterable[int]) -> dict[int, str]:
        result = {}
        for number in numbers:
            digest = hashlib.blake2b()
            for step in source.session(number):
                for message in step.messages:
                    digest.update(repr(message.body()).encode())
            result[number] = digest.hexdigest()
        return result

    alone = digests(source_of(traces, vocabulary), range(len(traces)))
    apart: dict[int, str] = {}
    for worker in range(4):
        numbers = range(len(traces) - 1 - worker, -1, -4)
        apart.update(digests(source_of(traces, vocabulary), numbers))
    assert apart == alone
    other = digests(source_of(traces, vocabulary, salt="u"), [0])
    assert other[0] != alone[0]


@needs_traces
def test_two_passes_share_no_words(vocabulary: Vocabulary) -> None:
    """A trace that is played again must not find its first play in the cache."""
    traces = load_traces(Source(MOONCAKE / "conversation_trace.first2000.jsonl"))[:3]
    source = source_of(traces, vocabulary)
    first, again = (next(source.session(n)).messages[0].content.tokens for n in (0, 3))
    assert first[: 4 * TOKEN_BYTES] != again[: 4 * TOKEN_BYTES]


@pytest.fixture(scope="module")
def kimi_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the tokenizer.json of K3 from its published vocabulary."""
    folder = tmp_path_factory.mktemp("kimi")
    text = dump(convert(read_ranks((KIMI / "tiktoken.model").read_bytes())))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return folder


@needs_kimi
@needs_traces
def test_k3_counts_the_tokens_that_the_recording_has(kimi_dir: Path) -> None:
    """The words are K3's own one-token words, so lengths hold on the real server."""
    tokenizer = Tokenizer.from_file(str(kimi_dir / "tokenizer.json"))
    traces = load_traces(Source(AGENTX / "trace_0693.json"))
    source = source_of(traces, read_vocabulary(kimi_dir))
    seen: dict[bytes, int] = defaultdict(int)
    for call, step in zip(traces[0].calls, source.session(0), strict=True):
        for message in step.messages:
            for text in (message.reasoning, message.content):
                if text.tokens not in seen:
                    ids = tokenizer.encode(text.text, add_special_tokens=False).ids
                    packed = b"".join(id_.to_bytes(TOKEN_BYTES, "little") for id_ in ids)
                    assert packed == text.tokens
                    seen[text.tokens] = len(ids)
        counted = sum(seen[m.reasoning.tokens] + seen[m.content.tokens] for m in step.messages)
        assert 0 <= counted - call.input_tokens <= 1
