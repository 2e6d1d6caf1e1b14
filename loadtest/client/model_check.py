"""Ask every target what it serves, before anything else is sent to it.

A target that does not answer is no mistake of the settings: a region may be down. One that answers
with a web page, or serves other models, is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gevent
import orjson
from geventhttpclient import HTTPClient

from fleet.errors import ConfigError, Problem
from fleet.schema import found_text
from loadtest.client.chat import Chat
from loadtest.client.secret import bearer_of, without_secret
from loadtest.client.transport import tls_context
from loadtest.settings import SETTINGS_FILE

MODELS_PATH = "/v1/models"
_PATIENCE_S = 10.0
_MOST_BYTES = 16 << 20
_READ_BYTES = 65_536
_SHOWN = 10  # models named in a message


def check_models(chat: Chat) -> None:
    """Raise ConfigError for targets that cannot be what the settings mean."""
    problems = [
        Problem(
            file=SETTINGS_FILE, line=None, path=f"targets.{region}", what=f"{url}: {what}", fix=fix
        )
        for region, url in chat.settings.targets.items()
        for what, fix in _faults(url, chat)
    ]
    if problems:
        raise ConfigError.of(problems)


def _faults(url: str, chat: Chat) -> Iterator[tuple[str, str]]:
    answer = _get(url, chat)
    if answer is None:
        return
    status, kind, text = answer
    if "html" in kind or text.lstrip()[:1] == b"<":
        yield f"is a web page (HTTP {status})", "Give the base URL of a gateway or frontend"
        return
    served = _names(text) if status == 200 else None
    if served and chat.settings.model not in served:
        # As in Python text, and without the key: terminals obey escapes.
        names = (found_text(name)[1:-1] for name in served[:_SHOWN])
        shown = without_secret(", ".join(names), bearer_of(chat.headers))
        yield (
            f"has no model {chat.settings.model!r}",
            f"It serves {shown}: set model to one of them",
        )


def _get(url: str, chat: Chat) -> tuple[int, str, bytes] | None:
    """Ask for the list; None when there is no answer, or only that of something broken."""
    path = urlsplit(url).path.rstrip("/") + MODELS_PATH
    client = HTTPClient.from_url(
        url,
        headers=chat.headers,
        connection_timeout=_PATIENCE_S,
        network_timeout=_PATIENCE_S,
        ssl_context_factory=lambda **_: tls_context(chat.settings.client.ca_file),
    )
    silent = gevent.Timeout(_PATIENCE_S)  # for all of it: a byte now and then is no answer
    silent.start()
    try:
        response = client.get(path)
        status, kind = int(response.status_code), str(response.get("content-type", ""))
        return None if status >= 500 else (status, kind.lower(), _text(response))
    except gevent.Timeout as limit:
        if limit is not silent:
            raise
        return None
    except (OSError, ValueError):  # refused, silent, or no HTTP: the first request will say so
        return None
    finally:
        silent.close()
        client.close()


def _text(response: Any) -> bytes:
    """Read the body, no more than is looked at; what is longer is no list of models."""
    body = bytearray()
    while len(body) <= _MOST_BYTES:
        part = response.read(_READ_BYTES)
        if not part:
            break
        body += part
    return bytes(body)


def _names(text: bytes) -> list[str]:
    """Read the names; none when it is no list of models."""
    try:
        document: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    listed = document.get("data") if isinstance(document, dict) else None
    entries = listed if isinstance(listed, list) else []
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]
