"""Write the words of a session: turn the outline of its calls into messages."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from loadtest.prompt.prompts import Image, Message, ToolCall, ToolSet
from loadtest.prompt.words import EMPTY, Vocabulary
from loadtest.traffic.harness import Harness, Prefix
from loadtest.traffic.outline import Call, Piece

_SEED_BITS = 32


@dataclass(slots=True)
class _History:
    """Hold the messages of one agent, and the key of the piece that each was written from."""

    prefix: Prefix
    messages: list[Message] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    open_calls: list[str] = field(default_factory=list)
    """Ids of the calls of the last answer whose results are still to come."""

    def add(self, key: int, message: Message) -> None:
        self.messages.append(message)
        self.keys.append(key)

    def cut(self, kept: int) -> dict[int, Message]:
        """Drop what follows the first `kept` messages, and return it by key."""
        dropped = dict(zip(self.keys[kept:], self.messages[kept:], strict=True))
        del self.messages[kept:], self.keys[kept:]
        return dropped

    def copy(self) -> _History:
        return _History(self.prefix, list(self.messages), list(self.keys))


@dataclass(slots=True, kw_only=True)
class Writer:
    """Write one session; every word comes from `rng`, in the order in which it is first sent."""

    vocabulary: Vocabulary
    rng: random.Random
    harness: Harness
    with_images: bool
    _agents: dict[str, _History] = field(default_factory=dict)

    def write(self, call: Call) -> tuple[tuple[Message, ...], ToolSet | None]:
        """Give the prompt of a call and the tools that it declares, and note its answer."""
        history = self._history(call)
        dropped = history.cut(call.kept)
        for piece in call.added:
            before = dropped.get(piece.key)
            message = self._message(piece, history) if before is None else before
            if before is not None and not piece.reasoning:
                message = replace(message, reasoning=EMPTY)
            history.add(piece.key, message)
        messages = tuple(history.messages)
        history.open_calls = []
        if call.answer is not None:
            answer = self._answer(call.answer, history.prefix.tools)
            history.open_calls = [tool_call.id for tool_call in answer.tool_calls]
            history.add(call.answer.key, answer)
        return messages, history.prefix.tools

    def _history(self, call: Call) -> _History:
        known = self._agents.get(call.agent)
        if known is not None:
            return known
        for child in [name for name in self._agents if name]:
            del self._agents[child]  # a sub-agent has ended before the next one starts
        prefix = self.harness.prefix(call.prefix)
        made = self._agents[""].copy() if call.forks else _History(prefix)
        self._agents[call.agent] = made
        return made

    def _message(self, piece: Piece, history: _History) -> Message:
        if piece.role == "system":
            return history.prefix.system
        if piece.role == "tool" and history.open_calls:
            text = self.vocabulary.draw(self.rng, piece.tokens)
            return Message(role="tool", content=text, call_id=history.open_calls.pop(0))
        if piece.images and self.with_images:
            text = self.vocabulary.draw(self.rng, piece.tokens)
            images = [
                Image(width=size.width, height=size.height, seed=self.rng.getrandbits(_SEED_BITS))
                for size in piece.images
            ]
            return Message(role="user", content=text, images=tuple(images))
        return Message(role="user", content=self.vocabulary.draw(self.rng, piece.size))

    def _answer(self, piece: Piece, tools: ToolSet | None) -> Message:
        reasoning = self.vocabulary.draw(self.rng, piece.reasoning)
        if tools is None:
            words = piece.size - piece.reasoning
            content = self.vocabulary.draw(self.rng, words)
            return Message(role="assistant", reasoning=reasoning, content=content)
        content = self.vocabulary.draw(self.rng, piece.tokens)
        names = tools.names
        calls = tuple(
            ToolCall(
                id=f"call_{piece.key}_{place}",
                name=names[(piece.key + place) % len(names)],
                argument=self.vocabulary.draw(self.rng, tokens),
            )
            for place, tokens in enumerate(piece.arguments)
        )
        return Message(role="assistant", reasoning=reasoning, content=content, tool_calls=calls)
