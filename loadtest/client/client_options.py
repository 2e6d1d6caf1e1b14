"""Say how patient the client is, and how much it takes from a server that has lost its mind."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ClientOptions(BaseModel):
    """Hold the limits of one request; each has a class of its own in the error taxonomy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    connect_timeout_s: float = Field(default=10.0, gt=0)
    """Name lookup, TCP and TLS together."""
    head_timeout_s: float = Field(default=30.0, gt=0)
    """For the rest of an answer's head, once its first byte is there."""
    first_token_timeout_s: float = Field(default=900.0, gt=0)
    """From send to the first token: a cold prefill of a million tokens takes minutes."""
    gap_timeout_s: float = Field(default=900.0, gt=0)
    """Longest silence between two tokens; bytes without a token, as keep-alives, do not count."""
    total_timeout_s: float = Field(default=3600.0, gt=0)
    """A stream that never ends is ended after this."""
    end_timeout_s: float = Field(default=5.0, gt=0)
    """For the end of the HTTP message after `[DONE]` or an error within the stream."""
    max_event_bytes: int = Field(default=16 << 20, ge=1024)
    """Largest single event, as sent or after decompression."""
    ca_file: Path | None = None
    """Certificates of a private authority, PEM; those of the system otherwise."""
    validate_json: bool = False
    """Parse every chunk in full. Otherwise a chunk that differs from a parsed one only inside the
    text of its delta is not parsed again."""
