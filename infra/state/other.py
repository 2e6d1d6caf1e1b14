"""Keep the state where only Pulumi itself looks: buckets of Google and Azure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.state.files import OWN_PASSPHRASE
from infra.state.store import Lock, StackName


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherState:
    """State that k3fleet does not look into; Pulumi's own messages say who holds a lock."""

    url: str
    secrets_provider: str | None = None

    def variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Pass the caller's passphrase on."""
        return {name: environ[name] for name in OWN_PASSPHRASE if name in environ}

    def secrets(self) -> tuple[str, ...]:
        """Give none: the passphrase is the caller's, who knows it."""
        return ()

    def prepare(self) -> None:
        """Do nothing: Pulumi says it when the bucket is away."""

    def exists(self, name: StackName) -> bool | None:
        """Leave it to Pulumi."""
        del name
        return None

    def locks(self, name: StackName) -> list[Lock]:
        """Leave it to Pulumi."""
        del name
        return []

    def remove(self, lock: Lock) -> None:
        """Remove nothing."""
        del lock
