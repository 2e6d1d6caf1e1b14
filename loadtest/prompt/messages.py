"""Say what a conversation is made of: messages, tool calls and results, declared tools, images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from loadtest.prompt.images import Image
from loadtest.prompt.words import EMPTY, Text

Role = Literal["system", "user", "assistant", "tool"]

ARGUMENT = "input"
"""Name of the one argument that each of our tools takes: a string, so it is text in the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Hold one call of a tool; ids must differ within a conversation, they match the results."""

    id: str
    name: str
    argument: Text = EMPTY
    said: str | None = None
    """The arguments as a model wrote them, instead of ours."""

    def arguments(self) -> str:
        """Give the arguments as a JSON object."""
        if self.said is not None:
            return self.said
        return orjson.dumps({ARGUMENT: self.argument.text}).decode()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolSet:
    """Hold the tools that one version of a harness declares, in the shape of chat completions.

    One object serves all its sessions: the server's rendering is learned once for each.
    """

    name: str
    tools: tuple[dict[str, Any], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Name the tools."""
        return tuple(tool["function"]["name"] for tool in self.tools)


def declare_tool(name: str, description: str) -> dict[str, Any]:
    """Declare a tool that takes `ARGUMENT`."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {ARGUMENT: {"type": "string"}},
                "required": [ARGUMENT],
            },
        },
    }


def _plain(text: Text) -> str:
    return text.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Hold one message; an assistant's carries its reasoning, else the prefix breaks each turn.

    Results of several calls follow in the order of the calls: the server sorts them so.
    """

    role: Role
    content: Text = EMPTY
    reasoning: Text = EMPTY
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """Which call a `tool` message answers."""
    images: tuple[Image, ...] = ()
    is_live: bool = False
    """An answer that a model gave: its `content` counts for all of it, calls included."""

    @property
    def length(self) -> int:
        """Count the tokens of its texts and images, without tags."""
        calls = sum(len(call.argument) for call in self.tool_calls)
        images = sum(image.tokens for image in self.images)
        return len(self.content) + len(self.reasoning) + calls + images

    @property
    def exact(self) -> bool:
        """Tell whether its tokens are known one by one: those of images and models are not."""
        return not (self.images or self.is_live)

    def body(self, show: Callable[[Text], Any] = _plain) -> dict[str, Any]:
        """Give the message as the chat completions API wants it; `show` gives its texts."""
        text = show(self.content)
        if self.role == "assistant":
            answer = {
                "role": "assistant",
                "reasoning_content": show(self.reasoning),
                "content": text,
            }
            return {**answer, "tool_calls": self._calls()} if self.tool_calls else answer
        if self.role == "tool":
            return {"role": "tool", "tool_call_id": self.call_id, "content": text}
        if self.images:
            shown = [{"type": "image_url", "image_url": {"url": i.url}} for i in self.images]
            return {"role": self.role, "content": [{"type": "text", "text": text}, *shown]}
        return {"role": self.role, "content": text}

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments()},
            }
            for call in self.tool_calls
        ]
