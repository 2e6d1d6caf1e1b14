"""Say where Pulumi's state is kept, and what encrypts the secrets in it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from fleet.schema import FileModel, Text, refuse
from fleet.state_address import Backend, SecretsKey, parse_backend, parse_secrets_provider


def _backend(text: str) -> str:
    parse_backend(text)
    return text


def _secrets_provider(text: str) -> str:
    parse_secrets_provider(text)
    return text


class StateSpec(FileModel):
    """Where Pulumi keeps what it knows of the stacks."""

    backend: Annotated[Text, AfterValidator(_backend)] | None = None  # None: the work folder
    secrets_provider: Annotated[Text, AfterValidator(_secrets_provider)] = "passphrase"

    @model_validator(mode="after")
    def _shared_key(self) -> Self:
        """Refuse a cloud's key for a state that is on one machine: it would lock its owner out."""
        if self.backend is None and self.secrets_provider != "passphrase":
            raise refuse(
                "secrets_provider is given, but no backend",
                "Name the backend as well; without one the state is in the work folder",
            )
        return self

    @property
    def location(self) -> Backend | None:
        """Parts of the backend's address; None: the work folder."""
        return None if self.backend is None else parse_backend(self.backend)

    @property
    def key(self) -> SecretsKey:
        """Parts of the secrets provider's address."""
        return parse_secrets_provider(self.secrets_provider)
