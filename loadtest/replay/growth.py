"""Infer how prompts grew where a recording has only their lengths.

Assumed: a call goes on with the prompt before it of the same agent. What is new is the answer to
that prompt, as far as it fits in, and then a user's or tool's message. A prompt that is shorter
than the one before is a compaction: it keeps the system prompt, when that is known, and nothing
else. How long the common prefix really was nobody recorded. A sub-agent whose first prompt found
most of its parent's latest prompt in a cache went on from that.

Recorded lengths contain the tags that a chat template puts around each message. They can be left
out of the text (`tag_tokens` each), as sending it adds them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loadtest.replay.recording import Call, Part

_FORK_SHARE = 0.9  # of the parent's prompt: the rest is its last block, which was not full


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCall:
    """Hold what is known of one call of an agent."""

    agent: str
    at_s: float
    input_tokens: int
    output_tokens: int
    after_tool: bool
    system_tokens: int = 0
    """What its first prompt shares with other sessions."""
    parent: str | None = None
    """The agent that started this one."""


@dataclass(slots=True)
class _Prompt:
    """Hold the latest prompt of an agent."""

    system_tokens: int = 0
    tokens: int = 0
    output_tokens: int = 0
    parts: int = 0
    written: int = 0


@dataclass(slots=True)
class Growth:
    """Turn the counted calls of one session into calls made of parts, in order of time."""

    tag_tokens: int = 0
    _prompts: dict[str, _Prompt] = field(default_factory=dict)

    def call(self, made: CountedCall) -> Call:
        """Make the call that adds to its agent's latest prompt."""
        prompt = self._prompts.setdefault(made.agent, _Prompt())
        keep = prompt.parts
        base = None if keep else self._forked(made)
        if base is not None:
            parent = self._prompts[base]
            prompt.system_tokens, keep = parent.system_tokens, parent.parts
            tags = 2 * self.tag_tokens
            parts = [_part("user", made.input_tokens - parent.tokens - tags, made, prompt)]
        elif not keep:
            parts = list(_first(made, prompt, self.tag_tokens))
        elif made.input_tokens >= prompt.tokens:
            parts = list(_more(made, prompt, self.tag_tokens))
        else:
            keep = int(0 < prompt.system_tokens < made.input_tokens)
            system = prompt.system_tokens = prompt.system_tokens if keep else 0
            tags = (keep + 2) * self.tag_tokens
            parts = [_part("user", made.input_tokens - system - tags, made, prompt)]
        prompt.parts = keep + len(parts)
        prompt.tokens = made.input_tokens
        prompt.output_tokens = made.output_tokens
        return Call(
            agent=made.agent,
            at_s=made.at_s,
            gap_s=0.0,
            input_tokens=made.input_tokens,
            output_tokens=made.output_tokens,
            after_tool=made.after_tool,
            keep=keep,
            base=base,
            parts=tuple(parts),
        )

    def _forked(self, made: CountedCall) -> str | None:
        """Name the parent, when this prompt goes on from the parent's."""
        parent = None if made.parent is None else self._prompts.get(made.parent)
        if parent is None or made.input_tokens < parent.tokens:
            return None
        return made.parent if made.system_tokens >= _FORK_SHARE * parent.tokens else None


def _first(made: CountedCall, prompt: _Prompt, tag_tokens: int) -> Iterator[Part]:
    """Open a conversation; the start of the answer has tags too."""
    system = min(made.system_tokens - tag_tokens, made.input_tokens - 1)
    if system > 0:
        prompt.system_tokens = system
        yield Part("system", system, f"system/{system}", common=True)
    tags = (3 if system > 0 else 2) * tag_tokens
    yield _part("user", made.input_tokens - max(0, system) - tags, made, prompt)


def _more(made: CountedCall, prompt: _Prompt, tag_tokens: int) -> Iterator[Part]:
    added = made.input_tokens - prompt.tokens
    if added:
        added = max(1, added - 2 * tag_tokens)
    answer = min(prompt.output_tokens, added - 1)
    if answer > 0:
        yield _part("assistant", answer, made, prompt)
    if added:
        yield _part("user", added - max(0, answer), made, prompt)


def _part(role: str, tokens: int, made: CountedCall, prompt: _Prompt) -> Part:
    prompt.written += 1
    key = f"{made.agent}/{prompt.written}"
    return Part("assistant" if role == "assistant" else "user", max(0, tokens), key)
