"""Read what one chunk of a streamed answer says.

`openai_delta` knows chat completions. A dialect is such a function: the reader in
`loadtest.client.sse` needs no more of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Delta:
    """Hold the news of one chunk."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    done: bool = False
    """This chunk ends the answer, as `[DONE]` does."""

    @property
    def has_token(self) -> bool:
        """Tell whether it carries anything that the model made; a role alone is nothing."""
        return bool(self.content or self.reasoning or self.tool_calls)


Dialect = Callable[[Mapping[str, Any]], Delta]


def openai_delta(chunk: Mapping[str, Any]) -> Delta:
    """Read a chat completion chunk; a field of the wrong type says nothing."""
    delta = Delta()
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        delta.usage = usage
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            delta.finish_reason = reason
        news = choice.get("delta")
        if isinstance(news, dict):
            delta.content += _text(news.get("content"))
            delta.reasoning += _text(news.get("reasoning_content")) or _text(news.get("reasoning"))
            calls = news.get("tool_calls")
            delta.tool_calls += calls if isinstance(calls, list) else []
    return delta


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class ToolCalls:
    """Put tool calls together from their deltas, as the next request has to send them back."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, str]] = {}

    def add(self, deltas: list[Any]) -> None:
        """Take the `tool_calls` of one chunk; what has no form is left out."""
        for delta in deltas:
            if not isinstance(delta, dict):
                continue
            index = delta.get("index", 0)
            call = self._calls.setdefault(
                index if isinstance(index, int) else 0, {"id": "", "name": "", "arguments": ""}
            )
            function = delta.get("function")
            function = function if isinstance(function, dict) else {}
            call["id"] = _text(delta.get("id")) or call["id"]
            call["name"] = _text(function.get("name")) or call["name"]
            call["arguments"] += _text(function.get("arguments"))

    def calls(self) -> tuple[dict[str, Any], ...]:
        """Give the calls in the form of an assistant message."""
        return tuple(
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for _, call in sorted(self._calls.items())
        )
