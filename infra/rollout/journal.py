"""Keep a rollout's record in a file that survives a kill at any moment.

One JSON object per line, written and synced before the next thing is touched. A last line
without its end was being written when the process died: it never happened. One process at a
time writes the record; what others ask for waits in an inbox beside it.

The same record may be shared by several working copies. Then it is written there first, and what
is there counts where the two differ: somebody else went on meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from fleet.errors import BusyError
from fleet.rollout.record import Asked, Entry
from fleet.rollout.state import State
from infra.rollout.record_file import RecordFile


class Shared(Protocol):
    """The same record, where every working copy finds it."""

    def held(self, *, take_over: bool = False) -> AbstractContextManager[None]:
        """Be the only one who drives; raise BusyError with who does."""
        ...

    def require(self, region: str) -> None:
        """Raise BusyError where a region is no longer ours, ApplyError where nobody can tell."""
        ...

    def longest(self) -> Sequence[Entry]:
        """Read it; empty when it is not there, or out of reach."""
        ...

    def write(self, entries: Sequence[Entry], needed: Collection[str]) -> None:
        """Write it whole; it has to arrive in some regions."""
        ...

    def ask(self, asked: Asked) -> None:
        """Leave a request for the driver."""
        ...

    def requests(self) -> list[Asked]:
        """Read the requests that wait."""
        ...

    def forget_requests(self) -> None:
        """Remove those that were read last."""
        ...


class Journal:
    """The record of one rollout and its inbox."""

    def __init__(self, path: Path, shared: Shared | None = None) -> None:
        self.path = path
        self._file = RecordFile(path)
        self._shared = shared
        self._inbox = path.with_suffix(".asked")
        self._lock = path.with_suffix(".lock")

    def read(self) -> list[Entry]:
        """Read the record; empty when there is none."""
        return self._file.entries()

    def state(self) -> State:
        """Give the state that the record leads to; raise ConfigError where there is none."""
        return self._file.state()

    def begun(self) -> bool:
        """Say whether there is an entry; the first one may have been torn by a kill."""
        return self._file.begun()

    def count(self) -> int:
        """Count the entries without reading them."""
        return self.path.read_bytes().count(b"\n") if self.path.exists() else 0

    def append(self, entry: Entry, needed: Collection[str] = ()) -> None:
        """Write one entry so that it is there after a power cut; only while `held`.

        A shared record has to have it in the `needed` regions, or in any.
        """
        if self._shared is not None:
            self._shared.write([*self.read(), entry], needed)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            _cut_torn_line(file.fileno())
            file.write(entry.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def held(self, holder: Mapping[str, str], *, take_over: bool = False) -> Iterator[None]:
        """Be the only writer; raise BusyError with who is. A killed holder lets go at once."""
        with self.held_here(holder):
            if self._shared is None:
                yield
                return
            with self._shared.held(take_over=take_over):
                self._settle(self._shared)
                yield

    @contextmanager
    def held_here(self, holder: Mapping[str, str]) -> Iterator[None]:
        """Be the only writer of this working copy, whatever others do in theirs."""
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

    def require_held(self, region: str) -> None:
        """Make sure, before a touch, that a region is still ours; only while `held`."""
        if self._shared is not None:
            self._shared.require(region)

    def take(self, entries: Sequence[Entry], holder: Mapping[str, str]) -> None:
        """Take over what a shared record has, unless a process writes ours at the moment."""
        try:
            with self.held_here(holder):
                self._put(entries)
        except BusyError:
            return

    def ask(self, asked: Asked, holder: Mapping[str, str], *, take_over: bool = False) -> bool:
        """Write a request into the record, or where a driver finds it; say whether one runs."""
        try:
            with self.held(holder, take_over=take_over):
                self.take_requests()
                self.append(asked)
        except BusyError:
            if self._shared is not None and self._is_free_here(holder):
                self._shared.ask(asked)
                return True
            with self._inbox.open("ab") as file:
                file.write(asked.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            return True
        return False

    def requests(self) -> list[Asked]:
        """Read what waits in the inbox."""
        own = [entry for entry in RecordFile(self._inbox).entries() if isinstance(entry, Asked)]
        return own if self._shared is None else [*own, *self._shared.requests()]

    def take_requests(self) -> None:
        """Move the inbox into the record; only while `held`.

        Of a shared record, requests are removed once they are written down. Those of the file are
        renamed first, so that a request that comes meanwhile stays; killed between the two, the
        next driver finds the renamed file, and a request twice is the same as once.
        """
        if self._shared is not None and (waiting := self._shared.requests()):
            for asked in waiting:
                self.append(asked)
            self._shared.forget_requests()
        taken = self._inbox.with_suffix(".taken")
        if not taken.exists():
            try:
                self._inbox.rename(taken)
            except FileNotFoundError:
                return
        for entry in RecordFile(taken).entries():
            self.append(entry)
        taken.unlink()

    def _is_free_here(self, holder: Mapping[str, str]) -> bool:
        try:
            with self.held_here(holder):
                return True
        except BusyError:
            return False

    def _settle(self, shared: Shared) -> None:
        """Make one of the two records, before anything is added."""
        self._put(shared.longest())
        if entries := self.read():
            shared.write(entries, ())

    def _put(self, entries: Sequence[Entry]) -> None:
        """Take a shared record where it is ahead, or where ours went another way."""
        own = self.read()
        if own[: len(entries)] == list(entries):
            return
        if own != list(entries[: len(own)]):  # kept, for who wants to know
            self.path.replace(self.path.with_suffix(".left"))
        draft = self.path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.writelines(entry.model_dump_json().encode() + b"\n" for entry in entries)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


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
