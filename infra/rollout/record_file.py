"""Read a record's file as it grows: what was read before is not read again.

A rollout of 1,800 replicas that go one by one has 40,000 entries, and its driver looks at them
before and after every phase.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fleet.errors import ConfigError
from fleet.rollout.record import Entry
from fleet.rollout.state import State, read_on, read_state

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)
_PART = 1 << 16


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say of which file it is that a record is no rollout's."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


@dataclass
class RecordFile:
    """The entries of one file, and the state that they lead to.

    Another process may have appended to the file, or put another in its place, since it was read:
    the last line that is known has to be where it was.
    """

    path: Path
    _entries: list[Entry] = field(default_factory=list)
    _size: int = 0  # of what was read, in bytes
    _last: bytes = b""  # its last line
    _state: State | None = None
    _folded: int = 0  # entries that the state knows

    def entries(self) -> list[Entry]:
        """Give all entries; a last line without its end never happened."""
        try:
            with self.path.open("rb") as file:
                if not self._continues(file.fileno()):
                    self._forget()
                file.seek(self._size)
                data = file.read()
        except FileNotFoundError:
            self._forget()
            return []
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines(keepends=True):
            self._entries.append(self._parsed(line))
            self._last = line
            self._size += len(line)
        return list(self._entries)

    def state(self) -> State:
        """Give the state of the rollout; raise ConfigError for a record that none has written."""
        entries = self.entries()
        with naming(self.path):
            if self._state is None:
                self._state = read_state(entries)
            else:
                self._state = read_on(self._state, entries[self._folded :], self._folded)
        self._folded = len(entries)
        return self._state

    def begun(self) -> bool:
        """Say whether there is an entry; the first one may have been torn by a kill."""
        if not self.path.is_file():
            return False
        with self.path.open("rb") as file:
            return any(b"\n" in part for part in iter(lambda: file.read(_PART), b""))

    def _continues(self, descriptor: int) -> bool:
        start = self._size - len(self._last)
        return os.pread(descriptor, len(self._last), start) == self._last

    def _parsed(self, line: bytes) -> Entry:
        try:
            return _ENTRY.validate_json(line)
        except ValidationError as error:
            number = len(self._entries) + 1
            self._forget()
            raise ConfigError(
                f"{self.path}:{number}: is no entry of a rollout. Restore the file from a copy."
            ) from error

    def _forget(self) -> None:
        self._entries.clear()
        self._size, self._last = 0, b""
        self._state, self._folded = None, 0
