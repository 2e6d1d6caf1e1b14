"""Replay recorded agent sessions with text of our own.

A recording holds no text, only the ids of its prompt's 64-token blocks. Every id becomes a fixed
run of words, so two prompts share exactly the prefix that their recordings shared; a compaction is
simply a prompt that leaves the others at some block.

Each session is a play of its own: only the blocks of tools and system prompt are the same words in
two plays of one recording. Sub-agents share the ids of their parent, so also its words, and run as
a session of their own, one call at a time in the order in which the calls were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from loadtest.block_tree import BlockTree, BlockWords
from loadtest.prompts import Message
from loadtest.recordings import Call, Trace
from loadtest.traffic import Scale, Seeds, Step
from loadtest.words import Vocabulary


class TraceTraffic:
    """Play recordings one after the other, each session a new play."""

    def __init__(
        self, traces: Sequence[Trace], vocabulary: Vocabulary, scale: Scale, seeds: Seeds
    ) -> None:
        self._traces = traces
        self._vocabulary = vocabulary
        self._scale = scale
        self._seeds = seeds

    def shared(self) -> Sequence[Message]:
        """Give the tools and system prompt of each recording that has any."""
        return [
            self._tree(trace, 0).messages(trace.system_ids, 0)[0]
            for trace in self._traces
            if trace.system_ids
        ]

    def session(self, number: int) -> Iterator[Step]:
        """Yield the calls of one play."""
        trace = self._traces[number % len(self._traces)]
        play = _Play(
            trace=trace,
            name=f"{self._seeds.salt}-{number}",
            tree=self._tree(trace, number),
            vocabulary=self._vocabulary,
            scale=self._scale,
            seeds=self._seeds,
        )
        return play.steps()

    def _tree(self, trace: Trace, number: int) -> BlockTree:
        words = BlockWords(
            vocabulary=self._vocabulary,
            block_size=trace.block_size,
            token_scale=self._scale.tokens,
        )
        key = f"{self._seeds.seed}/{self._seeds.salt}/{trace.name}"
        return BlockTree(
            words=words,
            system_ids=trace.system_ids,
            shared_key=f"{key}/shared",
            private_key=f"{key}/{number}",
        )


@dataclass(slots=True, kw_only=True)
class _Play:
    """Hold one play of a recording while it runs."""

    trace: Trace
    name: str
    tree: BlockTree
    vocabulary: Vocabulary
    scale: Scale
    seeds: Seeds
    last_output: dict[str, int] = field(default_factory=dict)

    def steps(self) -> Iterator[Step]:
        turns: dict[str, int] = {}
        free_s = 0.0
        for agent, call in self.trace.calls:
            turns[agent] = turns.get(agent, 0) + 1
            yield Step(
                session=f"{self.name}.{agent}" if agent else self.name,
                parent=self.name if agent else None,
                turn=turns[agent],
                kind=_kind(agent, turns[agent], call),
                gap_s=self.scale.gap_s(max(0.0, call.t - free_s)),
                messages=self._messages(agent, call),
                output_tokens=self.scale.length(call.output_tokens),
            )
            free_s = max(free_s, call.t + call.api_time)

    def _messages(self, agent: str, call: Call) -> tuple[Message, ...]:
        """Give the blocks as messages, and what is beyond the last whole block as one more."""
        answer_blocks = self.last_output.get(agent, 0) // self.trace.block_size
        self.last_output[agent] = call.output_tokens
        tail = call.input_tokens - len(call.hash_ids) * self.trace.block_size
        words = self.seeds.words(self.name, agent, call.t, "tail")
        text = self.vocabulary.draw(words, self.scale.length(max(0, tail)))
        blocks = self.tree.messages(call.hash_ids, answer_blocks)
        return (*blocks, Message(role="user", content=text))


def _kind(agent: str, turn: int, call: Call) -> str:
    if agent:
        return "subagent"
    if turn == 1:
        return "first"
    return "tool" if "tool_result" in call.input_types else "user"
