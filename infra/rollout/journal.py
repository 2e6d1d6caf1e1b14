"""Keep a rollout's record in a file that survives a kill at any moment.

One JSON object per line, written and synced before the next thing is touched. A last line
without its end was being written when the process died: it never happened. One process at a
time writes the record; what others ask for waits in an inbox beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fleet.errors import BusyError, ConfigError
from fleet.rollout.record import Asked, Entry

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Journal:
    """The record of one rollout and its inbox."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inbox = path.with_suffix(".asked")
        self._lock = path.with_suffix(".lock")

    def read(self) -> list[Entry]:
        """Read the record; empty when there is none."""
        return _read(self.path)

    def append(self, entry: Entry) -> None:
        """Write one entry so that it is there after a power cut; only while `held`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            _cut_torn_line(file.fileno())
            file.write(entry.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def held(self, holder: Mapping[str, str]) -> Iterator[None]:
        """Be the only writer; raise BusyError with who is. A killed holder lets go at once."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise BusyError(
                    f"{self.path}: driven by {_described(file.read())}. "
                    "Watch it with `k3fleet rollout status`, or ask it to pause."
                ) from None
            file.truncate(0)
            file.write(json.dumps(dict(holder)))
            file.flush()
            yield

    def ask(self, asked: Asked, holder: Mapping[str, str]) -> bool:
        """Write a request into the record, or where a driver finds it; say whether one runs."""
        try:
            with self.held(holder):
                self.take_requests()
                self.append(asked)
        except BusyError:
            with self._inbox.open("ab") as file:
                file.write(asked.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            return True
        return False

    def requests(self) -> list[Asked]:
        """Read what waits in the inbox."""
        return [entry for entry in _read(self._inbox) if isinstance(entry, Asked)]

    def take_requests(self) -> None:
        """Move the inbox into the record; only while `held`.

        Renamed first, so that a request that comes meanwhile stays; killed between the two,
        the next driver finds the renamed file, and a request twice is the same as once.
        """
        taken = self._inbox.with_suffix(".taken")
        if not taken.exists():
            try:
                self._inbox.rename(taken)
            except FileNotFoundError:
                return
        for entry in _read(taken):
            self.append(entry)
        taken.unlink()


def _read(path: Path) -> list[Entry]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_ENTRY.validate_json(line))
        except ValidationError as error:
            raise ConfigError(
                f"{path}:{number}: is no entry of a rollout. Restore the file from a copy."
            ) from error
    return entries


def _cut_torn_line(descriptor: int) -> None:
    """Remove the start of an entry that nobody finished."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)
    if whole := data.rfind(b"\n") + 1:
        os.ftruncate(descriptor, whole)
    elif data:
        os.ftruncate(descriptor, 0)


def _described(text: str) -> str:
    try:
        holder = json.loads(text)
        return ", ".join(f"{key} {value}" for key, value in holder.items())
    except (ValueError, AttributeError):
        return "another process"
