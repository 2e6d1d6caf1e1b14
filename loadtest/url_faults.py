"""Say what is wrong with a URL that a load test is given, without repeating a password in it.

URLs stand in settings, logs and reports, so none may hold a secret.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from fleet.schema import found_text

WEB = ("http", "https")


def base_url_fault(url: str) -> str | None:
    """Say why a URL cannot be the base of an API's paths; None = it can."""
    fault = url_fault(url, WEB)
    if fault is not None:
        return fault
    if "?" in url or "#" in url:  # also an empty one, which urlsplit does not tell
        return f"{shown_url(url)} has a query or a fragment, and paths are added. Leave it out"
    return None


def url_fault(url: str, schemes: Collection[str]) -> str | None:
    """Say what is wrong with a URL; None = nothing."""
    shown = shown_url(url)
    try:
        parts = urlsplit(url)
        named = parts.scheme in schemes and bool(parts.hostname)
        if named and "@" in parts.netloc:
            return (
                f"{shown} came with a user or password, which would stand in every file. "
                "Leave it out, and give a key by --api-key-file"
            )
        _ = parts.port
    except ValueError:  # its text repeats what may be a password
        return f"{shown} is no URL: see its port and brackets"
    if not named:
        *first, last = (f"{scheme}://" for scheme in schemes)
        return f"{shown} is no {', '.join(first)} or {last} URL"
    if not (url.isascii() and url.isprintable()) or " " in url:
        return (
            f"{shown} has characters that no URL has. Write them as in %C3%BC, or a name as in xn--"
        )
    return None


def shown_url(url: str) -> str:
    """Give a URL as a message may show it: what is before an @ may be a password."""
    *hidden, rest = url.rsplit("@", 1)
    return found_text(f"...@{rest}" if hidden else url)
