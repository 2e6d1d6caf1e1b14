"""Open the ledgers of a run's sessions; what many of them start with is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loadtest.prompt.frames import Frames
from loadtest.prompt.ledger import Encode, Ledger
from loadtest.prompt.messages import Message, ToolSet
from loadtest.prompt.words import Breathe

_Opening = tuple[ToolSet | None, int]
"""What a session starts with: its tools, and the identity of its system prompt."""


@dataclass(slots=True, kw_only=True)
class Ledgers:
    """Make ledgers that share the tokens and bytes of the run's system prompts."""

    frames: Frames
    block_size: int
    encode: Encode
    breathe: Breathe = lambda: None
    _shared: dict[_Opening, tuple[Message, Ledger]] = field(default_factory=dict)
    """The message is held with its ledger, so that its identity stays its own."""

    def share(self, tools: ToolSet | None, message: Message) -> None:
        """Count a message that many sessions start with."""
        ledger = self._new(tools, [message])
        ledger.take([message])
        self._shared[tools, id(message)] = (message, ledger)

    def open(self, tools: ToolSet | None, messages: Sequence[Message]) -> Ledger:
        """Begin the ledger of a session whose first prompt this is."""
        known = self._shared.get((tools, id(messages[0]))) if messages else None
        return self._new(tools, messages) if known is None else known[1].fork()

    def _new(self, tools: ToolSet | None, messages: Sequence[Message]) -> Ledger:
        frame = self.frames.frame(tools, messages)
        return Ledger(frame, self.block_size, self.encode, self.breathe)
