"""Keep the state in files: in the work folder, or where the fleet file says."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import StateError
from infra.state.store import Lock, StackName

KEY_FILE = "passphrase"
OWN_PASSPHRASE = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """State in a folder; the passphrase lies in a file that only its owner may read."""

    folder: Path
    passphrase: Path
    secrets_provider: str | None = None

    @classmethod
    def below(cls, root: Path) -> FileState:
        """Keep state and passphrase in a work folder."""
        whole = root.resolve()
        return cls(folder=whole / "state", passphrase=whole / KEY_FILE)

    @property
    def url(self) -> str:
        """Address of the folder."""
        return self.folder.as_uri()

    def variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Name the file of the passphrase, which is never in an environment."""
        del environ
        return {"PULUMI_CONFIG_PASSPHRASE_FILE": str(self.passphrase)}

    def secrets(self) -> tuple[str, ...]:
        """Read the passphrase."""
        try:
            return (self.passphrase.read_text(encoding="utf-8").strip(),)
        except OSError:
            return ()

    def prepare(self) -> None:
        """Make the folder, and once the key of the state; mend what a killed update has torn."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.passphrase.parent.mkdir(parents=True, exist_ok=True)
            if not self.passphrase.exists():
                flags = os.O_CREAT | os.O_WRONLY | os.O_EXCL
                with os.fdopen(os.open(self.passphrase, flags, 0o600), "w") as out:
                    out.write(secrets.token_urlsafe(32))
            for file in self.folder.glob(".pulumi/stacks/*/*.attrs"):
                with suppress(FileNotFoundError):
                    _remove_torn(file)
        except OSError as error:
            raise StateError(
                f"{self.folder}: the state cannot be kept there: {error.strerror}. "
                "Make the folder writable, or name another one as state.backend."
            ) from error

    def exists(self, name: StackName) -> bool:
        """Look for the stack's checkpoint."""
        plain = self.folder / name.checkpoint
        return plain.exists() or plain.with_name(f"{plain.name}.gz").exists()

    def locks(self, name: StackName) -> list[Lock]:
        """Read the lock files."""
        found = []
        for file in sorted((self.folder / name.locks).glob("*.json")):
            try:
                text = file.read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, IsADirectoryError):  # released while we looked, or no lock
                continue
            found.append(Lock.read(str(file), text))
        return found

    def remove(self, lock: Lock) -> None:
        """Remove a lock file."""
        Path(lock.place).unlink(missing_ok=True)


def _remove_torn(file: Path) -> None:
    """Remove what describes a checkpoint unless it is whole: Pulumi needs none.

    It is written anew before the checkpoint is put in its place; killed in the middle, nothing can
    load the stack any more ("failed to load checkpoint: EOF"). Source: gocloud.dev,
    blob/fileblob/attrs.go.
    """
    try:
        json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        file.unlink()
