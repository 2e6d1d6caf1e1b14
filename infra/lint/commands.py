"""Find the engine or frontend that a container starts, and read its command line.

Images wrap their engine in many ways: `command: [python3, -m, dynamo.vllm]` with
`args`, or a shell script with line continuations and variables. Here both become
one list of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from fleet.given_flags import GivenFlags, given_flags, is_any
from fleet.yaml_document import NodePath
from infra.lint.images import Versions, versions_in
from infra.lint.pods import Container
from infra.lint.shell import assignments, simple_commands
from infra.lint.variables import Variables

Engine = Literal["vllm", "sglang", "trtllm"]
Program = Literal[
    "vllm",
    "sglang",
    "trtllm",
    "dynamo.vllm",
    "dynamo.sglang",
    "dynamo.trtllm",
    "dynamo.frontend",
    "dynamo.mocker",
]

# The words that start a program, longest first; what follows them are its arguments.
_STARTS: Mapping[tuple[str, ...], Program] = {
    ("-m", "vllm.entrypoints.openai.api_server"): "vllm",
    ("-m", "sglang.launch_server"): "sglang",
    ("-m", "dynamo.vllm"): "dynamo.vllm",
    ("-m", "dynamo.sglang"): "dynamo.sglang",
    ("-m", "dynamo.trtllm"): "dynamo.trtllm",
    ("-m", "dynamo.frontend"): "dynamo.frontend",
    ("-m", "dynamo.mocker"): "dynamo.mocker",
    ("vllm", "serve"): "vllm",
    ("sglang", "serve"): "sglang",
    ("trtllm-serve",): "trtllm",
}
_NOT_KNOWN = "$"
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})


class Word(NamedTuple):
    """One word of a command line, and where it stands in the object."""

    text: str
    path: NodePath

    @property
    def is_open(self) -> bool:
        """Say whether part of the word is only known when the pod runs."""
        return "$" in self.text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Command:
    """One start of an engine or a frontend."""

    container: Container
    program: Program
    words: tuple[Word, ...]  # its arguments
    versions: Versions  # of what is in the image, as far as the image's name says
    # What a script sets for it: `export A=1`, `env A=1 python3 …`.
    assigned: Mapping[str, Word] = field(default_factory=dict)

    @property
    def env(self) -> Mapping[str, str | None]:
        """Return its variables, the container's and its script's; None: nobody knows the value."""
        own = {name: None if word.is_open else word.text for name, word in self.assigned.items()}
        return {**self.container.env, **own}

    @property
    def env_paths(self) -> Mapping[str, NodePath]:
        """Return where each variable is set."""
        named = {name: path for name, _, path in self.container.env_entries()}
        return named | {name: word.path for name, word in self.assigned.items()}

    @property
    def is_engine(self) -> bool:
        """Say whether it computes, rather than routes."""
        return self.program != "dynamo.frontend"

    @property
    def engine(self) -> Engine | None:
        """Return the engine inside, None for frontends and mocked engines."""
        kind = self.program.removeprefix("dynamo.")
        return cast(Engine, kind) if kind in {"vllm", "sglang", "trtllm"} else None

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the arguments as plain text."""
        return tuple(word.text for word in self.words)

    @property
    def given(self) -> GivenFlags:
        """Return its flags, as the version's own parser reads them."""
        return given_flags(self.program, self.texts, *self.versions)

    def value(self, *flags: str) -> str | None:
        """Return the last value given to any of some flags, if any; empty: none is."""
        found = self.find(*flags)
        return found.text if found else None

    def find(self, *flags: str) -> Word | None:
        """Return the last value of any of some flags, with its place.

        A flag without a value gives the empty text.
        """
        use = self.given.find(*flags)
        if use is None:
            return None
        return Word(use.values[0].text if use.values else "", self.words[use.place].path)

    def place(self, *flags: str) -> NodePath:
        """Return where the last value of any of some flags stands, or of a key of it."""
        found = [use for use in self.given.uses if is_any(use, flags)]
        if not found:
            return self.container.path
        return self.words[found[-1].place].path

    def has(self, *flags: str) -> bool:
        """Say whether any of some flags is given."""
        return self.given.has(*flags)


def is_flag(text: str) -> bool:
    """Say whether a word is a flag; `-1` is a value."""
    return re.match(r"--?[A-Za-z]", text) is not None


def commands(container: Container) -> Iterator[Command]:
    """Yield the engines and frontends that a container starts, in order."""
    for words, exported in _simple_commands(container):
        texts = [word.text for word in words]
        found = _program(texts)
        if found is None:
            continue
        program, arguments = found
        before = dict(assignments(texts[:arguments]))
        assigned = {**exported, **before}
        yield Command(
            container=container,
            program=program,
            words=tuple(words[arguments:]),
            versions=versions_in(container),
            assigned={name: Word(text, words[0].path) for name, text in assigned.items()},
        )


def _program(texts: Sequence[str]) -> tuple[Program, int] | None:
    """Return the program, and the index of its first argument."""
    for start, program in _STARTS.items():
        size = len(start)
        for index in range(len(texts) - size + 1):
            if _same_start(texts[index : index + size], start):
                return program, index + size
    return None


def _same_start(words: Sequence[str], start: tuple[str, ...]) -> bool:
    first = words[0] if start[0].startswith("-") else words[0].rpartition("/")[2]
    return (first, *words[1:]) == start


def _simple_commands(container: Container) -> Iterator[tuple[list[Word], Mapping[str, str]]]:
    """Yield what the container runs: the words of each command, and what its script exports."""
    words = [
        Word(text, (*container.path, key, index))
        for key in ("command", "args")
        for index, text in enumerate(container.words(key))
    ]
    if words and words[0].text.rpartition("/")[2] in _SHELLS:
        script = _script(words)
        if script is not None:
            for simple in simple_commands(script.text, container.env):
                exported = {
                    name: _NOT_KNOWN if value is None else value
                    for name, value in simple.exported.items()
                }
                yield [Word(text, script.path) for text in simple.words], exported
        return
    if words:
        known = Variables(container.env)
        yield [Word(known.fill(word.text), word.path) for word in words], {}


def _script(words: Sequence[Word]) -> Word | None:
    """Return what follows `-c` (or `-lc`, `-ec`), the text of the script."""
    for index, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[a-z]*c", word.text):
            return words[index + 1] if index + 1 < len(words) else None
        if not word.text.startswith("-"):
            return None
    return None
