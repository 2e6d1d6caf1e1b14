"""Learn from the server how it renders a set of tools, their calls, their results, and images.

The declaration stands at the start of the prompt, so each set of tools has a frame of its own. A
call's tags hold the tool's name and the call's place in its answer; both are tried for every tool.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleet.errors import ConfigError
from loadtest.prompt.calibrate import MARKER_WORDS, Ask, TagIds, gaps, overhead
from loadtest.prompt.limits import MOST_CALLS
from loadtest.prompt.prompts import Frame, Image, Message, Slot, ToolCall, ToolSet
from loadtest.prompt.words import Text, Vocabulary

_TAG_ID = 0xF800_0000
"""First made-up id for the tags of tools; those of a plain chat start lower."""


def learn_tools(
    ask: Ask, frame: Frame, tools: ToolSet, vocabulary: Vocabulary, rng: random.Random
) -> Frame:
    """Give the frame of prompts with these tools; `ask` must declare them.

    It is not exact when the server writes call ids into the prompt: the tags then differ between
    two calls of the same tool at the same place, so only their number can be told.
    """
    probe = _Probe(tools, vocabulary, rng)
    every = probe.all_calls()
    echo = ask(every)
    if echo.token_ids is None:
        return _counted_tools(ask, frame, probe)
    learned = dict(gaps(echo.token_ids, every))
    last = probe.last_call()
    again = dict(gaps(ask(last).token_ids or (), last))
    exact = all(learned.get(pair, tags) == tags for pair, tags in again.items())
    return replace(
        frame, between={**frame.between, **learned, **again}, exact=frame.exact and exact
    )


def learn_image(ask: Ask, image: Image, vocabulary: Vocabulary, rng: random.Random) -> int:
    """Count the tokens that the server makes of an image of this size."""
    content = vocabulary.draw(rng, MARKER_WORDS)
    plain = Message(role="user", content=content)
    shown = replace(plain, images=(image,))
    added = ask([shown]).prompt_tokens - ask([plain]).prompt_tokens
    if added < 0:
        raise ConfigError(
            f"model: a prompt with an image of {image.width}x{image.height} pixels has fewer "
            "tokens than without it. Give a model that takes images, or a profile without them."
        )
    return added


class _Probe:
    """Make the probe conversations with one set of tools, each text a run of words of its own."""

    def __init__(self, tools: ToolSet, vocabulary: Vocabulary, rng: random.Random) -> None:
        self.names = tools.names
        self._vocabulary = vocabulary
        self._rng = rng
        self._calls = 0
        self.system = Message(role="system", content=self._text())
        self.question = [Message(role="user", content=self._text())]

    def turn(self, name: str, calls: int) -> list[Message]:
        """Make an answer that calls one tool so often, and the results."""
        made = tuple(self._call(name) for _ in range(calls))
        answer = Message(
            role="assistant", reasoning=self._text(), content=self._text(), tool_calls=made
        )
        results = [
            Message(role="tool", content=self._text(), call_id=call.id)
            for call in answer.tool_calls
        ]
        return [answer, *results]

    def all_calls(self) -> list[Message]:
        """Make a conversation that calls every tool at every place."""
        turns = [message for name in self.names for message in self.turn(name, MOST_CALLS)]
        return [self.system, *self.question, *turns, *self.question]

    def last_call(self, calls: int = 1, name: str | None = None) -> list[Message]:
        """Make a conversation that ends with results."""
        return [*self.question, *self.turn(name or self.names[0], calls)]

    def _call(self, name: str) -> ToolCall:
        self._calls += 1
        return ToolCall(id=f"probe_{self._calls}", name=name, argument=self._text())

    def _text(self) -> Text:
        return self._vocabulary.draw(self._rng, MARKER_WORDS)


def _counted_tools(ask: Ask, frame: Frame, probe: _Probe) -> Frame:
    """Solve the sizes of the tags from token counts; what closes a call is put before it."""
    tags = TagIds(_TAG_ID)
    base = overhead(ask, probe.question)
    first = overhead(ask, probe.last_call()) - base
    more = overhead(ask, probe.last_call(2)) - base - first
    opening = tags.draw(base)
    between = dict(frame.between)
    between["start", "user"] = between["start", "system"] = opening
    for name in probe.names:
        size = overhead(ask, probe.last_call(1, name)) - base
        sizes = [size, *([more + size - first] * (MOST_CALLS - 1))]
        if min(base, *sizes) < 0:
            raise ConfigError(
                f"tokenizer_dir: a call of {name} has fewer tokens than words were sent. "
                "Give the tokenizer directory of the model that the server runs."
            )
        between.update(_counted_calls(name, [tags.draw(count) for count in sizes]))
    between["result", "reasoning"] = between["result", "end"] = b""
    between["result", "user"] = frame.between["user", "user"]
    return replace(frame, between=between, exact=False)


def _counted_calls(name: str, tags: Sequence[bytes]) -> Iterator[tuple[tuple[Slot, Slot], bytes]]:
    for place, opening in enumerate(tags, start=1):
        call, result = f"call:{name}#{place}", f"result:{name}#{place}"
        yield ("content", call), opening
        yield ("call", call), opening
        yield ("call", result), b""
        yield ("result", result), b""
