"""Read the Prometheus pages of a fleet while a run goes on: at its start, its end, and between.

A `dns+http://` page is one of each address that its name has at the moment. Behind one address of
several servers the counters of all would look like one that goes up and down.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gevent
from gevent.pool import Group

from loadtest.results.result_options import BY_NAME, ResultOptions
from loadtest.results.server_truth import SERVER_FILE, Page, read_series, write_pages

MOST_BYTES = 32 * 1024 * 1024
_READ_BYTES = 64 * 1024

Fetch = Callable[[str, float], str]
Resolve = Callable[[str, int], set[str]]
"""Gives the addresses of a host; raises OSError."""


class PageError(Exception):
    """Say why a page cannot be read."""


def fetch_page(url: str, timeout_s: float) -> str:
    """Get a page in bounded time and memory, past any proxy; raises PageError."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    deadline_s = time.monotonic() + timeout_s
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        try:
            connection.request("GET", parts.path or "/metrics", headers={"Accept": "text/plain"})
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise PageError(f"HTTP {answer.status}")
            return _read(answer, deadline_s)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PageError(str(error) or type(error).__name__) from error


def _read(answer: http.client.HTTPResponse, deadline_s: float) -> str:
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_READ_BYTES):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise PageError(f"larger than {MOST_BYTES:,} bytes")
        if time.monotonic() > deadline_s:
            raise PageError("too slow")
    return b"".join(parts).decode("utf-8", "replace")


def addresses_of(host: str, port: int) -> set[str]:
    """Resolve a name; raises OSError."""
    return {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}


@dataclass(slots=True, kw_only=True)
class ServerWatch:
    """Read all pages at once, again and again, until told to stop."""

    options: ResultOptions
    out_dir: Path
    fetch: Fetch = fetch_page
    resolve: Resolve = addresses_of
    pages: list[Page] = field(init=False, default_factory=list)
    _known: set[str] = field(init=False, default_factory=set)
    _has_read: bool = field(init=False, default=False)
    _greenlet: Any = field(init=False, default=None)
    _reading: Any = field(init=False, default_factory=Group)

    def start(self) -> None:
        """Read once, then again and again beside the run."""
        if self.options.metrics:
            self.read_all()
            self._greenlet = gevent.spawn(self._watch)

    def finish(self) -> None:
        """Read a last time and write the file; without pages there is none."""
        if not self.options.metrics:
            return
        if self._greenlet is not None:
            self._greenlet.kill()
        self._reading.kill()  # an older reading that came after the last would look like a reset
        self.read_all()
        write_pages(self.out_dir / SERVER_FILE, self.pages)

    def read_all(self) -> None:
        """Read every page once, side by side."""
        for region, urls in self.options.metrics.items():
            for url in urls:
                self._find(region, url)
        self._has_read = True
        for page in self.pages:
            if not page.url.startswith(BY_NAME):
                self._reading.spawn(self._read_one, page)
        self._reading.join()

    def _find(self, region: str, url: str) -> None:
        """Add the pages that a name stands for now; a name that cannot be resolved is a page."""
        if not url.startswith(BY_NAME):
            self._add(region, url)
            return
        parts = urlsplit(url)
        try:
            found = self.resolve(parts.hostname or "", parts.port or http.client.HTTP_PORT)
        except OSError as error:
            self._add(region, url)
            named = next(page for page in self.pages if page.url == url)
            named.fail(str(error))
            return
        for host in sorted(found):
            at = f"[{host}]" if ":" in host else host
            self._add(region, f"http://{at}:{parts.port or http.client.HTTP_PORT}{parts.path}")

    def _add(self, region: str, url: str) -> None:
        if url not in self._known:
            self._known.add(url)
            # What it counted before it was seen may be of this run.
            self.pages.append(Page(region=region, url=url, late=self._has_read))

    def _watch(self) -> None:
        while True:
            gevent.sleep(self.options.scrape_every_s)
            self.read_all()

    def _read_one(self, page: Page) -> None:
        timeout_s = self.options.scrape_timeout_s
        try:
            with gevent.Timeout(2 * timeout_s, PageError("too slow")):
                text = self.fetch(page.url, timeout_s)
            page.take(read_series(text))
        except PageError as error:
            page.fail(str(error))
        except ValueError as error:  # the parser's, for text of another format
            page.fail(f"no Prometheus text: {error}")


def watch_servers(options: ResultOptions, out_dir: Path) -> ServerWatch:
    """Start to watch the pages that the settings name."""
    watch = ServerWatch(options=options, out_dir=out_dir)
    watch.start()
    return watch
