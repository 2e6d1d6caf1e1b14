"""Fill variables of a container into its command line, as far as their values are known.

What is not known keeps its `$`, and nobody judges it. Neither does anybody judge what
would be longer than Linux lets a command be: a few lines can expand to gigabytes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

Env = Mapping[str, str | None]  # None: set, but nobody knows to what

MAX_COMMAND_CHARS = 2 * 1024**2  # of all arguments together (ARG_MAX of Linux)
UNKNOWN_WORD = "${_}"  # the last word of the last command: never known
# `${NAME:-default}` is NAME where that is known; else open, since an image may set it.
REFERENCE = r"\$(?:\{(?P<braced>\w+)(?::?-[^{}]*)?\}|(?P<plain>\w+))"

_OF_SHELL = re.compile(REFERENCE)
_OF_KUBERNETES = re.compile(r"\$\$|\$\((?P<of_kubernetes>\w+)\)")
_ANY = re.compile(rf"{REFERENCE}|\$\((?P<of_kubernetes>\w+)\)")


class Variables:
    """The variables of one command."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._room = MAX_COMMAND_CHARS

    def fill(self, text: str) -> str:
        """Fill in every reference, of Kubernetes and of a shell."""

        def value(found: re.Match[str]) -> str:
            known = self._value(found)
            return found[0] if known is None else known

        return _ANY.sub(value, text)

    def fill_first(self, text: str) -> str:
        """Fill in what Kubernetes does before a shell starts: `$(NAME)`, wherever it stands."""

        def value(found: re.Match[str]) -> str:
            name = found["of_kubernetes"]
            if name is None:
                return "$"
            if name not in self._env:  # a command, for the shell
                return found[0]
            known = self._value(found)
            return "${" + name + "}" if known is None else known

        return _OF_KUBERNETES.sub(value, text)

    def as_words(self, reference: str) -> str:
        """Fill in one the way a shell does outside quotes: at spaces it becomes words."""
        found = _OF_SHELL.fullmatch(reference)
        if found is None:
            return reference
        value = self._value(found)
        if value is None:
            return "${" + _name(found) + "}"
        if "$" in value:
            return shlex.quote(value) if value.split() == [value] else UNKNOWN_WORD
        return " ".join(shlex.quote(word) for word in value.split())

    def _value(self, reference: re.Match[str]) -> str | None:
        """Give the value of a reference; an empty one gives way to a default."""
        value = self._env.get(_name(reference))
        if value is None or (not value and "-" in reference[0]) or len(value) > self._room:
            return None
        self._room -= len(value)
        return value


def _name(reference: re.Match[str]) -> str:
    return next(name for name in reference.groupdict().values() if name)
