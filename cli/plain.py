"""Make text safe to print: what other people wrote must not drive a terminal.

A file's name or value may hold escape sequences that repaint the screen, or a newline
with which it forges a line of ours. Letters of every language stay as they are.
"""

from __future__ import annotations


def plain(text: str) -> str:
    """Write what is not printable as an escape, newlines too: the result is one line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
