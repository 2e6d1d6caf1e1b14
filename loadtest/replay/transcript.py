"""Turn recorded messages into parts: their roles and lengths, and a key of what they say.

The same text in two sessions becomes the same words, so prefixes that were shared stay shared.
The text itself is not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from loadtest.prompt.prompts import Role
from loadtest.replay.files import Entry
from loadtest.replay.reading import CountTokens
from loadtest.replay.recording import MAX_PROMPT_TOKENS, Part

OUTPUT_TOKENS = 216
"""Of an answer whose length was not recorded: the median of kv-cache-tester's sessions."""

_ROLES: dict[str, Role] = {
    "assistant": "assistant",
    "developer": "system",
    "function": "user",
    "system": "system",
    "tool": "user",
    "user": "user",
}


@dataclass(frozen=True, slots=True)
class Transcript:
    """Read messages of one file."""

    count: CountTokens

    def parts(self, entry: Entry, place: str, messages: Any) -> list[Part]:
        """Read a list of messages; raises ConfigError for one without a known role."""
        if not isinstance(messages, list) or not messages:
            entry.refuse(place, "is no list of messages", "Give at least one message")
        parts = []
        for index, message in enumerate(messages):
            spot = f"{place}[{index}]"
            if not isinstance(message, dict):
                entry.refuse(spot, "is no message", 'Write {"role": …, "content": …}')
            role = message.get("role")
            if not isinstance(role, str) or role not in _ROLES:
                what = f"is none of {', '.join(_ROLES)}"
                entry.refuse(f"{spot}.role", what, "Correct the role")
            text = "".join(_texts(entry, spot, message))
            parts.append(self.part(entry, spot, _ROLES[role], text))
        return parts

    def part(self, entry: Entry, place: str, role: Role, text: str) -> Part:
        """Measure one text."""
        tokens = self.count(text)
        if tokens > MAX_PROMPT_TOKENS:
            entry.refuse(place, f"more than {MAX_PROMPT_TOKENS} tokens", "Leave it out")
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12)
        return Part(role, tokens, digest.hexdigest(), common=True)

    def tools(self, entry: Entry, place: str, tools: Any) -> list[Part]:
        """Measure declared tools: they stand before everything else in a prompt."""
        return [self.part(entry, place, "system", _json(entry, place, tools))] if tools else []


def check_length(entry: Entry, place: str, history: Sequence[Part]) -> int:
    """Add up a prompt; raises ConfigError when it is beyond all."""
    tokens = sum(part.tokens for part in history)
    if tokens > MAX_PROMPT_TOKENS:
        entry.refuse(place, f"a prompt of more than {MAX_PROMPT_TOKENS} tokens", "Leave it out")
    return tokens


def sendable(before: Sequence[Part], added: Iterable[Part]) -> list[Part]:
    """Put parts into an order that every chat template takes, after those of before.

    A system prompt stands first, an answer follows a user, and a user has the last word.
    """
    last: Role | None = before[-1].role if before else None
    parts: list[Part] = []
    for part in added:
        if part.role == "system" and last == "system" and parts:
            parts[-1] = _merged(parts[-1], part)
            continue
        fits = last is None if part.role == "system" else part.role == "user" or last == "user"
        legal = part if fits else replace(part, role="user")
        parts.append(legal)
        last = legal.role
    if last != "user":
        parts.append(Part("user", 1, "go on", common=True))
    return parts


def _merged(one: Part, two: Part) -> Part:
    return replace(one, tokens=one.tokens + two.tokens, key=f"{one.key}+{two.key}")


def _texts(entry: Entry, place: str, message: dict[str, Any]) -> Iterator[str]:
    """Give the texts of a message: content, or its text parts, reasoning and calls of tools."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str):
            yield message[key]
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield part["text"]
    if message.get("tool_calls"):
        yield _json(entry, f"{place}.tool_calls", message["tool_calls"])


def _json(entry: Entry, place: str, value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        entry.refuse(place, "is nested too deep", "Leave it out")
