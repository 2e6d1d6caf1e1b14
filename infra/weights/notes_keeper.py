"""Keep notes of what was read: in the bucket, where every machine finds them, and on the disk.

Either may be lost. Without both the bytes are read again, and nothing else happens.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from fleet.weights.names import NOTES
from fleet.weights.notes import MAX_BYTES, Begun, Note, Notes, read_notes
from infra.weights.store import Store
from infra.weights.store_errors import DeniedError


class NotesKeeper:
    """The notes of one revision in one bucket."""

    def __init__(
        self, store: Store, revision: str, file: Path | None, say: Callable[[str], None]
    ) -> None:
        """Read what is there. `file`: the copy on the disk; None: none is kept."""
        self._store, self._key = store, store.key(revision, NOTES)
        self._file, self._say = file, say
        self._shared = True  # until the bucket refuses
        self._lock = threading.Lock()
        kept = store.small(self._key, MAX_BYTES)
        self.notes = self._on_disk().joined(read_notes(kept.content) if kept else Notes())

    def note(self, name: str, note: Note) -> None:
        """Write down what was read of a file; its upload is over then."""
        self._change(Notes(read={name: note}), over=name)

    def begun(self, name: str, begun: Begun) -> None:
        """Write down what a new upload is fed from."""
        self._change(Notes(begun={name: begun}))

    def _change(self, change: Notes, over: str = "") -> None:
        with self._lock:
            joined = self.notes.joined(change)
            begun = {name: one for name, one in joined.begun.items() if name != over}
            self.notes = joined.model_copy(update={"begun": begun})
            content = self.notes.model_dump_json(indent=1).encode()
            self._write(content)
            self._share(content)

    def _share(self, content: bytes) -> None:
        if not self._shared:
            return
        try:
            self._store.put(self._key, content)
        except DeniedError:
            self._shared = False
            kept = f"on this machine only, in {self._file}" if self._file else "nowhere"
            self._say(f"{self._store.place}: may not be written to; what was read is noted {kept}.")

    def _write(self, content: bytes) -> None:
        if self._file is None:
            return
        scratch = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with scratch.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self._file)
        except OSError as error:
            self._say(f"{self._file}: {error.strerror}: noted in the bucket only. Free some space.")
            self._file = None

    def _on_disk(self) -> Notes:
        try:
            return read_notes(self._file.read_bytes()) if self._file else Notes()
        except OSError:
            return Notes()
