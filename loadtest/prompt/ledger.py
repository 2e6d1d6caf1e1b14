"""Keep count of a growing conversation, so that a step costs only what it adds.

A ledger holds the messages of the last prompt, each encoded once as a fragment of a request's
body, and the chain hashes of the blocks that they fill. The next prompt is compared message by
message: what it shares with the last one stays, the rest is cut off, and only the new end is
tokenised, hashed and encoded. That is the same whether a prompt appends, is compacted, drops its
reasoning or leaves the old one anywhere else.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from loadtest.prompt.messages import Message
from loadtest.prompt.prompts import (
    DIGEST_BYTES,
    Frame,
    Places,
    Prompt,
    Slot,
    hash_blocks,
    places_after,
    texts_of,
    view_blocks,
)
from loadtest.prompt.words import TOKEN_BYTES, Breathe

Encode = Callable[[Message], bytes]
"""Gives the fragment of a body that a message is."""

_SLICE = 1024  # blocks hashed between two breaths: about two milliseconds


class Ledger:
    """Give prompt and fragments of one conversation, step by step."""

    def __init__(
        self, frame: Frame, block_size: int, encode: Encode, breathe: Breathe = lambda: None
    ) -> None:
        self._frame = frame
        self._block_size = block_size
        self._encode = encode
        self._breathe = breathe
        self._messages: tuple[Message, ...] = ()
        self.fragments: list[bytes] = []
        self._ends = array("Q")
        """Token count up to the end of each message."""
        self._chain = bytearray()
        self._rest = b""
        """Tokens after the last full block."""

    def fork(self) -> Ledger:
        """Copy the state; fragments and messages themselves are shared."""
        other = Ledger(self._frame, self._block_size, self._encode, self._breathe)
        other._messages = self._messages
        other.fragments = self.fragments.copy()
        other._ends = self._ends[:]
        other._chain = self._chain.copy()
        other._rest = self._rest
        return other

    def advance(self, messages: Sequence[Message]) -> Prompt:
        """Go to the next prompt."""
        return self._prompt(self.take(messages))

    def take(self, messages: Sequence[Message]) -> Slot:
        """Take a conversation that nobody asks about yet; return where its last text stands."""
        messages = tuple(messages)
        kept = self._shared(messages)
        if kept < len(self._messages):
            self._cut(kept)
        places, before = self._places(kept), self._slot_before(kept)
        try:
            for message in messages[kept:]:
                places = places_after(message, places)
                before = self._append(message, places, before)
        finally:
            self._messages = messages[: len(self._ends)]
        return before

    def starts_like(self, messages: Sequence[Message]) -> bool:
        """Tell whether a conversation begins as this one."""
        return self._messages[:1] == tuple(messages[:1])

    def _shared(self, messages: tuple[Message, ...]) -> int:
        """Count the messages that stay; the comparison in C takes nanoseconds each."""
        most = min(len(self._messages), len(messages))
        if messages[:most] == self._messages[:most]:
            return most
        pairs = enumerate(zip(self._messages, messages, strict=False))
        return next(index for index, (ours, theirs) in pairs if ours != theirs)

    def _cut(self, kept: int) -> None:
        """Forget what comes after the first messages."""
        count = self._ends[kept - 1] if kept else 0
        blocks, rest = divmod(count, self._block_size)
        self._rest = self._tail(kept, rest)
        self._messages = self._messages[:kept]
        del self.fragments[kept:]
        del self._ends[kept:]
        del self._chain[blocks * DIGEST_BYTES :]

    def _tail(self, kept: int, count: int) -> bytes:
        """Make the last tokens of the first messages anew."""
        if not count:
            return b""
        start, end = kept - 1, self._ends[kept - 1]
        while start and end - self._ends[start - 1] < count:
            start -= 1
        places, before = self._places(start), self._slot_before(start)
        parts: list[bytes] = []
        for message in self._messages[start:kept]:
            places = places_after(message, places)
            tokens, before = self._tokens(message, places, before)
            parts.append(tokens)
        return b"".join(parts)[-count * TOKEN_BYTES :]

    def _places(self, index: int) -> Places:
        """Give the calls that a result at this index may answer."""
        for message in reversed(self._messages[:index]):
            if message.role == "assistant":
                return places_after(message, {})
        return {}

    def _slot_before(self, index: int) -> Slot:
        """Tell where the text before a message stands."""
        if not index:
            return "start"
        *_, (slot, _, _) = texts_of(self._messages[index - 1], self._places(index))
        return slot

    def _append(self, message: Message, places: Places, before: Slot) -> Slot:
        """Add one message; return where its last text stands."""
        tokens, last = self._tokens(message, places, before)
        is_long = len(tokens) > _SLICE * self._block_size * TOKEN_BYTES
        if is_long:
            self._breathe()
        fragment = self._encode(message)
        if is_long:
            self._breathe()
        data = self._rest + tokens
        if is_long:  # megabytes were copied
            self._breathe()
        chain = bytearray()
        hashes = hash_blocks(bytes(self._chain[-DIGEST_BYTES:]), data, self._block_size)
        for number, digest in enumerate(hashes, start=1):
            chain += digest
            if number % _SLICE == 0:
                self._breathe()
        self._chain += chain
        self._rest = data[len(data) - len(data) % (self._block_size * TOKEN_BYTES) :]
        self._ends.append((self._ends[-1] if self._ends else 0) + len(tokens) // TOKEN_BYTES)
        self.fragments.append(fragment)
        return last

    def _tokens(self, message: Message, places: Places, before: Slot) -> tuple[bytes, Slot]:
        """Give the tokens from the end of the text before, and where the last text stands."""
        parts: list[bytes] = []
        for slot, tokens in self._frame.slots_of(message, places):
            parts += (self._frame.gap(before, slot), tokens)
            before = slot
        return b"".join(parts), before

    def _prompt(self, before: Slot) -> Prompt:
        end = self._frame.gap(before, "end")
        previous = bytes(self._chain[-DIGEST_BYTES:])
        last = hash_blocks(previous, self._rest + end, self._block_size)
        count = self._ends[-1] if self._ends else 0
        return Prompt(
            token_count=count + len(end) // TOKEN_BYTES,
            blocks=view_blocks(b"".join((self._chain, *last))),
            exact=self._frame.exact and all(message.exact for message in self._messages),
        )
