"""Show achieved against attainable cache hit live, in a tab of Locust's web page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response, request

from loadtest.records import Record

if TYPE_CHECKING:  # importing Locust patches sockets and threads of the whole process
    from locust.web import WebUI

_KEY = "prefix-cache"
_COLUMNS = (
    ("region", "Region"),
    ("requests", "Requests"),
    ("prompt", "Prompt tokens"),
    ("cached", "Cached tokens"),
    ("hit", "Hit"),
    ("attainable", "Attainable"),
    ("ratio", "Achieved ÷ attainable"),
    ("unreported", "Without report"),
)


@dataclass(slots=True)
class _Sums:
    requests: int = 0
    prompt: int = 0
    cached: int = 0
    attainable: int = 0
    unreported: int = 0


class CacheTab:
    """Sum up cache figures per region."""

    def __init__(self) -> None:
        self._regions: defaultdict[str, _Sums] = defaultdict(_Sums)

    def clear(self) -> None:
        """Forget the last test."""
        self._regions.clear()

    def add(self, record: Record, _received_bytes: int) -> None:
        """Count one successful request."""
        if record.error is not None:
            return
        sums = self._regions[record.region]
        sums.requests += 1
        if record.cached_tokens is None:
            sums.unreported += 1
            return
        sums.prompt += record.prompt_tokens or 0
        sums.cached += record.cached_tokens
        sums.attainable += record.attainable_tokens

    def take(self) -> dict[str, dict[str, int]]:
        """Give what was counted since the last time, and forget it: somebody else adds it up."""
        taken = {region: asdict(sums) for region, sums in self._regions.items()}
        self._regions.clear()
        return taken

    def merge(self, taken: dict[str, dict[str, int]]) -> None:
        """Add what another process counted."""
        for region, counted in taken.items():
            sums = self._regions[region]
            for part in fields(_Sums):
                setattr(sums, part.name, getattr(sums, part.name) + counted[part.name])

    def rows(self) -> list[dict[str, str | int]]:
        """Give the rows of the table."""
        return [
            {
                "region": region,
                "requests": sums.requests,
                "prompt": sums.prompt,
                "cached": sums.cached,
                "hit": _percent(sums.cached, sums.prompt),
                "attainable": _percent(sums.attainable, sums.prompt),
                "ratio": _percent(sums.cached, sums.attainable),
                "unreported": sums.unreported,
            }
            for region, sums in sorted(self._regions.items())
        ]

    def attach(self, web_ui: WebUI) -> None:
        """Add the tab to the page, and its rows to the statistics the page polls."""
        structure = [{"key": key, "title": title} for key, title in _COLUMNS]
        web_ui.template_args |= {
            "extended_tabs": [{"title": "Prefix cache", "key": _KEY}],
            "extended_tables": [{"key": _KEY, "structure": structure}],
        }

        def extend(response: Response) -> Response:
            if request.path == "/stats/requests":
                stats: dict[str, Any] = {**(response.json or {})}
                stats["extended_stats"] = [{"key": _KEY, "data": self.rows()}]
                response.set_data(orjson.dumps(stats))
            return response

        if web_ui.app is not None:
            web_ui.app.after_request(extend)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
