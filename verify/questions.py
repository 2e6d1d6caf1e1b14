"""Define questions whose answers are known, and judge what a replica answers to them.

Pure. A few shapes that K3's parsers treat differently: a plain answer, reasoning that is streamed,
a forced tool call, and a long prompt that is asked twice, so that its cache shows. Each is easy for
any healthy model, and no garbage passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Control tokens of K3 and its kin, and tags of reasoning; none may ever be seen by a client.
MARKER = re.compile(r"<\|\w+\|>|</?think>")
# Reasoning at low effort needs some hundreds; an answer that is cut after this many is wrong.
MOST_TOKENS = 4096
LONG_LINES = 400  # about 6,000 tokens: several blocks of any size that engines use
_BROKEN_TEXT = "\ufffd"
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: what to send, and what a right answer has."""

    name: str
    text: str
    says: str  # somewhere in the answer
    stream: bool = False
    tool: str | None = None  # has to be called, with `says` in its arguments
    reasons: bool = False  # reasoning has to be apart from the answer
    repeats: bool = False  # the same prompt as the question before it

    def body(self, model: str, *, forced: bool) -> dict[str, Any]:
        """Give the request; a tool can only be forced where its call is parsed."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": self.text}],
            "max_tokens": MOST_TOKENS,
            "reasoning_effort": "low",
        }
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.tool:
            body |= {"tools": [_tool(self.tool)], "tool_choice": "required" if forced else "auto"}
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, put together where it was streamed."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()  # names and arguments
    finish: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that were cached; None where the engine does not report it."""
        details = self.usage.get("prompt_tokens_details") or {}
        found = details.get("cached_tokens")
        return int(found) if isinstance(found, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What may be expected of the engines that are asked."""

    block_tokens: int  # of a cached block
    parsed: bool = True  # reasoning and tool calls come apart from the answer


def questions(nonce: str) -> tuple[Question, ...]:
    """Give the questions; `nonce` makes the long prompt one that no cache has."""
    lines = [f"{nonce} line {n}: {n * 7919 % 10007}" for n in range(LONG_LINES)]
    lines[LONG_LINES // 3] = f"{nonce} the watchword is KESTREL"
    long = "\n".join([*lines, "Which watchword is in these lines? Answer with it alone."])
    return (
        Question(name="plain", text="What is 17 + 25? Answer with the number only.", says="42"),
        Question(
            name="reasoning",
            text="Think it through, then answer with the number only: what is 17 times 24?",
            says="408",
            stream=True,
            reasons=True,
        ),
        Question(
            name="tool",
            text="Look up the weather in Paris.",
            says="Paris",
            stream=True,
            tool="get_weather",
        ),
        Question(name="long", text=long, says="KESTREL"),
        Question(name="long-again", text=long, says="KESTREL", repeats=True),
    )


def leaks(answer: Answer) -> tuple[str, ...]:
    """List the markers that a client would have seen, wherever in the answer."""
    texts = [answer.content, answer.reasoning, *(part for call in answer.calls for part in call)]
    return tuple(found for text in texts for found in MARKER.findall(text))


def is_empty(answer: Answer) -> bool:
    """Tell an answer that ended by itself and says nothing."""
    return not answer.content.strip() and not answer.calls and answer.finish != "length"


def wrong(question: Question, answer: Answer, expected: Expected) -> Iterator[str]:
    """Say what is wrong with an answer that is neither empty nor leaks."""
    if answer.finish == "length":
        yield f"cut after {MOST_TOKENS} tokens"
    elif answer.finish is None:
        yield "has no finish reason"
    yield from _usage(answer)
    if question.tool and expected.parsed:
        yield from _call(question, answer)
    elif question.says not in answer.content:
        yield f"does not say {question.says}: {_short(answer.content)}"
    if question.reasons and expected.parsed and not answer.reasoning.strip():
        yield "has no reasoning apart from the answer"
    if _BROKEN_TEXT in answer.content + answer.reasoning:
        yield "holds broken characters"
    if question.repeats:
        yield from _cached(answer, expected.block_tokens)


def _usage(answer: Answer) -> Iterator[str]:
    for key in ("prompt_tokens", "completion_tokens"):
        found = answer.usage.get(key)
        if not isinstance(found, int) or found < 1:
            yield f"its usage has no {key}"


def _call(question: Question, answer: Answer) -> Iterator[str]:
    if [name for name, _ in answer.calls] != [question.tool]:
        yield f"does not call {question.tool}: {_short(answer.content)}"
        return
    try:
        arguments = json.loads(answer.calls[0][1])
    except ValueError:
        yield f"arguments are no JSON: {_short(answer.calls[0][1])}"
        return
    if not isinstance(arguments, dict) or question.says not in str(arguments.get("city")):
        yield f"arguments are not those asked for: {_short(answer.calls[0][1])}"
    if answer.finish != "tool_calls":
        yield f"finish reason {answer.finish}, not tool_calls"


def _cached(answer: Answer, block_tokens: int) -> Iterator[str]:
    """Want the whole blocks of a prompt that was just asked; one may be missing at the end."""
    if answer.cached_tokens is None:
        yield "its usage does not say what was cached"
        return
    prompt = answer.usage.get("prompt_tokens")
    whole = ((prompt - 1) // block_tokens) * block_tokens if isinstance(prompt, int) else 0
    if answer.cached_tokens < whole - block_tokens:
        yield f"{answer.cached_tokens} of {whole} tokens were cached, asked a second time"


def _tool(name: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": "Tell the weather.", "parameters": schema},
    }


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
