"""Fit names and labels into what each cloud allows."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

_DIGEST = 5  # hex digits: two of 1,000 names share them once in two


def fitted(name: str, limit: int) -> str:
    """Shorten a name that is too long, and keep it apart from others that begin alike."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - _DIGEST - 1].rstrip('-')}-{_digest(name)}"


def plain(name: str, limit: int) -> str:
    """Make a name of lower-case letters and digits only, which begins with a letter.

    Names that differ in their dashes alone, like `a-b` and `ab`, stay apart by the digest.
    """
    letters = "".join(char for char in name.lower() if char.isalnum())
    return f"{letters[: limit - _DIGEST]}{_digest(name)}"


def labels(tags: Mapping[str, str]) -> dict[str, str]:
    """Write tags as labels of clouds that allow no colon in a key."""
    return {key.replace(":", "-"): value for key, value in tags.items()}


def _digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:_DIGEST]
