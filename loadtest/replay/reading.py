"""Say what a reader of one file format has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from loadtest.replay.files import Document, Entry
from loadtest.replay.options import ReplayOptions
from loadtest.replay.recording import Trace

CountTokens = Callable[[str], int]

BYTES_PER_TOKEN = 4
"""Of English and code, with the tokenizers of today; used where no tokenizer is at hand."""


def estimate_tokens(text: str) -> int:
    """Guess the tokens of a text from its bytes."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Hold what readers are told: the options, and how to count the tokens of recorded text."""

    options: ReplayOptions = field(default_factory=ReplayOptions)
    count: CountTokens = estimate_tokens


class Reader(Protocol):
    """Read one format."""

    name: ClassVar[str]
    """What `trace:FORMAT:PATH` calls it."""
    may_be_cut: ClassVar[bool]
    """Whether a last line without an end is left out, and not an error."""

    def claims(self, document: Document) -> bool:
        """Tell by its first object whether a file is of this format."""
        ...

    def traces(self, entries: Iterator[Entry], rules: Rules) -> Iterator[Trace]:
        """Read the sessions; raises ConfigError that names the file, the line and the field."""
        ...
