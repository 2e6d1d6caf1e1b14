"""Make what all sessions of a harness version start with: declared tools and the system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from loadtest.prompt.prompts import Message, ToolSet, declare_tool
from loadtest.prompt.words import Vocabulary
from loadtest.traffic.outline import Shared
from loadtest.traffic.profile_schema import Profile
from loadtest.traffic.scale import Scale, Seeds

TOOL_NAMES = ("read", "edit", "write", "bash", "grep", "glob", "task", "plan")

_DECLARATION_TOKENS = 40
"""About what the JSON around a tool's description takes; the frame learns the exact number."""


class HarnessOptions(BaseModel):
    """Say what of a harness goes over the wire as what it is, and what as plain words.

    Plain words have the same number of tokens, and every chat server takes them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: bool = False
    """Declare tools, send calls and results; needs a server that parses tool calls."""
    images: bool = False
    """Send images; needs a server that takes them."""


PLAIN = HarnessOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Hold what one version of a harness sends before anything else."""

    system: Message
    tools: ToolSet | None


class Harness:
    """Hold the prefixes of all versions of a profile's harness, each made once."""

    def __init__(
        self,
        profile: Profile,
        vocabulary: Vocabulary,
        scale: Scale,
        seeds: Seeds,
        *,
        with_tools: bool,
    ) -> None:
        self._vocabulary = vocabulary
        self._scale = scale
        self._seeds = seeds
        self._prefixes: dict[Shared, Prefix] = {}
        tools_share = profile.tools_tokens / profile.shared_prefix_tokens if with_tools else 0.0
        for variant in range(profile.harness_variants):
            own: Shared = ("harness", variant)
            self._prefixes[own] = self._make(own, profile.shared_prefix_tokens, tools_share)
            if profile.subagents is not None:
                child: Shared = ("subagent", variant)
                size = profile.subagents.prompt_tokens
                self._prefixes[child] = self._make(child, size, tools_share)

    def prefixes(self) -> Sequence[Prefix]:
        """Give all prefixes."""
        return list(self._prefixes.values())

    def prefix(self, shared: Shared) -> Prefix:
        """Give one prefix, the same object each time."""
        return self._prefixes[shared]

    def _make(self, shared: Shared, tokens: int, tools_share: float) -> Prefix:
        """Divide a length between the declared tools and the system prompt."""
        tools_tokens = round(tokens * tools_share)
        words = self._seeds.words(*shared)
        length = self._scale.length(tokens - tools_tokens)
        system = Message(role="system", content=self._vocabulary.draw(words, length))
        return Prefix(system=system, tools=self._tools(shared, tools_tokens))

    def _tools(self, shared: Shared, tokens: int) -> ToolSet | None:
        if tokens == 0:
            return None
        each = self._scale.length(tokens) // len(TOOL_NAMES) - _DECLARATION_TOKENS
        words = self._seeds.words("tools", *shared)
        texts = [self._vocabulary.draw(words, max(1, each)).text for _ in TOOL_NAMES]
        tools = [declare_tool(name, text) for name, text in zip(TOOL_NAMES, texts, strict=True)]
        return ToolSet(name=f"{shared[0]}-{shared[1]}", tools=tuple(tools))
