"""Choose the place of the state by its address."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from infra.state.files import KEY_FILE, FileState
from infra.state.other import OtherState
from infra.state.store import StateStore

_NO_KEY = "passphrase"  # Pulumi's word for it


def state_at(backend: str | None, secrets_provider: str | None, root: Path) -> StateStore:
    """Open the state of a fleet; without an address it is below `root`."""
    key = None if secrets_provider == _NO_KEY else secrets_provider
    if backend is None:
        return FileState.below(root)
    url = urlsplit(backend)
    match url.scheme:
        case "file":
            folder = Path(url.path)
            return replace(
                FileState(folder=folder, passphrase=folder / KEY_FILE), secrets_provider=key
            )
        case "s3":
            # Only where it is asked for: its SDK takes a second to load.
            from infra.state.bucket import BucketState  # noqa: PLC0415

            return BucketState(url=backend, secrets_provider=key)
        case _:
            return OtherState(url=backend, secrets_provider=key)
