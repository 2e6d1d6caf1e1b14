"""Recognise a chunk that differs from an earlier one only in the text of its delta.

Most chunks of an answer do. Parsing each costs more than all else that is done with it, and says
nothing new: what surrounds the text was parsed when the shape was learnt. A text that could hide
an end of its string (it holds a quote, or ends in a backslash) is not recognised.
"""

from __future__ import annotations

from loadtest.client.deltas import Delta

_OUTPUT_FIELDS = (b'"content":',)
_REASONING_FIELDS = (b'"reasoning_content":', b'"reasoning":')


class TextShape:
    """Hold the bytes before and after the text of the last parsed chunk."""

    def __init__(self) -> None:
        self._before = b""
        self._after = b""
        self.is_output = False
        """The text is part of the answer, not of the reasoning."""

    def matches(self, data: bytes) -> bool:
        """Tell whether this chunk has the known shape and some text; if not, parse it."""
        before, after = self._before, self._after
        start, end = len(before), len(data) - len(after)
        return (
            0 < start < end
            and data.startswith(before)
            and data.endswith(after)
            and data.find(b'"', start, end) < 0
            and data[end - 1] != 0x5C  # a backslash
        )

    def learn(self, data: bytes, delta: Delta) -> None:
        """Learn from a parsed chunk, if all that it brings is one text."""
        if delta.tool_calls or delta.finish_reason or delta.usage:
            return
        if bool(delta.content) == bool(delta.reasoning):
            return
        text = (delta.content or delta.reasoning).encode("utf-8", "surrogatepass")
        for name in _OUTPUT_FIELDS if delta.content else _REASONING_FIELDS:
            if data.count(name) != 1:
                continue
            after_name = data.find(name) + len(name)
            start = data.find(b'"', after_name) + 1
            end = data.find(b'"', start)
            # It stands where the parser found it, and is no part of another string.
            if not data[after_name : start - 1].strip() and data[start:end] == text:
                self._before, self._after = data[:start], data[end:]
                self.is_output = bool(delta.content)
                return
