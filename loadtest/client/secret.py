"""Keep the API key out of what is noted of an answer: some servers echo what they were sent."""

from __future__ import annotations

from collections.abc import Mapping

HIDDEN = "[API key]"
_LEAST_PART = 4  # characters of a cut key that tell something


def without_secret(text: str, secret: str) -> str:
    """Hide the secret, also one that is escaped as in JSON, or cut at the end of the text."""
    if not secret:
        return text
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    for shape in (secret, escaped, escaped.replace("/", "\\/")):
        text = text.replace(shape, HIDDEN)
        for length in range(len(shape) - 1, _LEAST_PART - 1, -1):
            if text.endswith(shape[:length]):
                text = text[:-length] + HIDDEN
                break
    return text


def bearer_of(headers: Mapping[str, str]) -> str:
    """Give the key that is sent, empty without one."""
    return headers.get("Authorization", "").removeprefix("Bearer ")
