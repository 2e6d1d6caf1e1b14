"""Start and stop a load by the page of a Locust master, wherever that page is reached."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import httpx2

from fleet.errors import ConfigError, LoadError

TIMEOUT_S = 30.0
# Run in the master's pod, where the page is on loopback: method, URL, form.
IN_POD = """\
import sys, urllib.request
method, url, form = sys.argv[1:4]
data = form.encode() if method == "POST" else None
with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=30) as page:
    sys.stdout.buffer.write(page.read())
"""


class Page(Protocol):
    """Somebody who can ask the page of a master."""

    def ask(self, method: str, path: str, form: Mapping[str, str]) -> bytes:
        """Send one request and give the body of the answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPage:
    """A page behind a URL, e.g. of a `kubectl port-forward`."""

    url: str

    def ask(self, method: str, path: str, form: Mapping[str, str]) -> bytes:
        """Send one request; raises ConfigError when no page is there."""
        url = self.url.rstrip("/") + path
        try:
            data = dict(form) if method == "POST" else None
            reply = httpx2.request(method, url, data=data, timeout=TIMEOUT_S, trust_env=False)
            reply.raise_for_status()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ConfigError(
                f"{self.url}: no page of a Locust master answers ({type(error).__name__}). "
                "Check the URL, and that its port is forwarded."
            ) from error
        return reply.content


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState:
    """How the load of a master stands."""

    state: str
    users: int
    workers: int
    requests: int
    failures: int


def in_pod_command(port: int, method: str, path: str, form: Mapping[str, str]) -> Sequence[str]:
    """Give the command that asks the page from within its pod."""
    url = f"http://127.0.0.1:{port}{path}"
    return ["python3", "-c", IN_POD, method, url, urlencode(form)]


def start_load(page: Page, *, users: int, spawn_per_s: float, duration_s: float) -> str:
    """Press start, and say what the page says."""
    form = {
        "user_count": str(users),
        "spawn_rate": f"{spawn_per_s:g}",
        "run_time": f"{max(1, round(duration_s))}s",
    }
    answer = _json(page.ask("POST", "/swarm", form))
    if answer.get("success") is not True:
        raise LoadError(
            f"the load generator did not start: {answer.get('message', 'no reason given')}. "
            "See the log of its master."
        )
    return str(answer.get("message", ""))


def stop_load(page: Page) -> str:
    """Press stop, and say what the page says."""
    return str(_json(page.ask("POST", "/stop", {})).get("message", ""))


def load_state(page: Page) -> LoadState:
    """Read how the load stands."""
    told = _json(page.ask("GET", "/stats/requests", {}))
    rows: list[dict[str, Any]] = list(told.get("stats", ()))
    total = next((row for row in rows if row.get("name") == "Aggregated"), {})
    return LoadState(
        state=str(told.get("state", "unknown")),
        users=int(told.get("user_count", 0)),
        workers=len(told.get("workers", ())),
        requests=int(total.get("num_requests", 0)),
        failures=int(total.get("num_failures", 0)),
    )


def _json(body: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(body))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "the page answers with something that no Locust master says. "
            "Check that the URL is that of the load generator."
        ) from error
