"""Tell a webhook what people have to know, without ever holding the rollout up.

Its address may be a secret, as chat services have it: nothing but its host is ever shown, and it is
in no record.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2

from fleet.errors import ConfigError

TIMEOUT_S = 5.0
LAST_S = 10.0  # for what still waits when the driver ends
MAX_WAITING = 100

Send = Callable[[Mapping[str, object]], None]


def require_address(url: str, where: str) -> None:
    """Raise ConfigError for what is no address of a webhook, without showing it."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError(f"{where}: is no http or https address. Correct it, or leave it out.")


def require_recordable(url: str, where: str) -> None:
    """Raise ConfigError for an address that must not be written down, without showing it."""
    require_address(url, where)
    if "@" in urlsplit(url).netloc:
        raise ConfigError(
            f"{where}: names a user or a password, and is recorded in the clusters. Take it out, "
            "and put the address into the variable K3FLEET_WEBHOOK."
        )


@contextmanager
def webhook(url: str | None, say: Callable[[str], None]) -> Iterator[Send]:
    """Send events one after the other while the block runs; what fails is said once, and left."""
    if url is None:
        yield lambda _event: None
        return
    waiting: queue.Queue[Mapping[str, object] | None] = queue.Queue(MAX_WAITING)
    sender = threading.Thread(target=_send_all, args=(url, waiting, say), daemon=True)
    sender.start()

    def send(event: Mapping[str, object]) -> None:
        if not waiting.full():
            waiting.put_nowait(event)

    try:
        yield send
    finally:
        if not waiting.full():
            waiting.put_nowait(None)
        sender.join(timeout=LAST_S)


def _send_all(
    url: str, waiting: queue.Queue[Mapping[str, object] | None], say: Callable[[str], None]
) -> None:
    failed = False
    while (event := waiting.get()) is not None:
        why = _send(url, event)
        if why and not failed:
            say(f"webhook at {urlsplit(url).hostname}: {why}; the rollout goes on without it")
        failed = bool(why)


def _send(url: str, event: Mapping[str, object]) -> str:
    """Post one event; say what went wrong, without a word of the address."""
    try:
        reply = httpx2.post(url, json=event, timeout=TIMEOUT_S, trust_env=False)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return type(error).__name__
    return "" if reply.is_success else f"answered {reply.status_code}"
