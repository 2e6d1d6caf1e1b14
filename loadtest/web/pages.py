"""Add our tabs, routes and checks to Locust's web page.

All that we serve needs the login, when the page has one; nothing comes from another host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson
from flask import Blueprint, Response, abort, jsonify, request
from flask_login import current_user
from plotly.offline import get_plotlyjs

from fleet.errors import FleetError
from loadtest.web.board import Board
from loadtest.web.origin import guard
from loadtest.web.tables import Table, as_csv

if TYPE_CHECKING:  # importing Locust patches sockets and threads of the whole process
    from locust.web import WebUI

PREFIX = "/k3fleet"
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data: blob:; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC = {
    "charts": ("charts.html", "text/html; charset=utf-8"),
    "charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "charts.css": ("charts.css", "text/css; charset=utf-8"),
}
_LINK = (
    '<a href=".{prefix}/charts" target="_blank" rel="noopener" style="position:fixed;right:1rem;'
    "bottom:1rem;z-index:9;padding:.5rem 1rem;border-radius:8px;background:#2b6a99;color:#fff;"
    'font:600 14px system-ui,sans-serif;text-decoration:none">Live charts</a></body>'
)

Page = Callable[..., Response]
Check = Callable[[Mapping[str, str]], None]
"""Prepares a start from what the form says; raises FleetError."""


def attach(web_ui: WebUI, board: Board, tables: Sequence[Table], check: Check) -> None:
    """Add everything to the page."""
    if web_ui.app is None:
        return
    web_ui.template_args |= {
        "extended_tabs": [{"title": table.title, "key": table.key} for table in tables],
        "extended_tables": [
            {
                "key": table.key,
                "structure": [{"key": key, "title": title} for key, title in table.columns.items()],
            }
            for table in tables
        ],
        "extended_csv_files": [
            {"href": f".{PREFIX}/csv/{table.key}.csv", "title": f"Download {table.title} CSV"}
            for table in tables
        ],
    }
    options = web_ui.environment.parsed_options
    base = (options.web_base_path if options is not None else "") or ""
    web_ui.app.register_blueprint(_blueprint(web_ui, board, tables), url_prefix=base + PREFIX)
    guard(web_ui)
    web_ui.app.before_request(_refusal(web_ui, check))
    web_ui.app.after_request(_extension(tables))


def _blueprint(web_ui: WebUI, board: Board, tables: Sequence[Table]) -> Blueprint:
    pages = Blueprint("k3fleet", __name__)
    folder = files("loadtest.web") / "static"
    by_key = {table.key: table for table in tables}
    guarded: Callable[[Page], Page] = web_ui.auth_required_if_enabled

    @pages.route("/<name>")
    @guarded
    def static_file(name: str) -> Response:
        if name == "plotly.js":
            return _text(str(get_plotlyjs()), "text/javascript; charset=utf-8", lasting=True)
        if name not in _STATIC:
            abort(404)
        file, kind = _STATIC[name]
        return _text((folder / file).read_text(encoding="utf-8"), kind)

    @pages.route("/state.json")
    @guarded
    def state() -> Response:
        return _text(orjson.dumps(board.state()).decode(), "application/json")

    @pages.route("/csv/<key>.csv")
    @guarded
    def table(key: str) -> Response:
        if key not in by_key:
            abort(404)
        response = _text(as_csv(by_key[key]), "text/csv; charset=utf-8")
        response.headers["Content-Disposition"] = f"attachment; filename={key}.csv"
        return response

    return pages


def _text(text: str, kind: str, *, lasting: bool = False) -> Response:
    response = Response(text, content_type=kind)
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "private, max-age=3600" if lasting else "no-store"
    return response


def _refusal(web_ui: WebUI, check: Check) -> Callable[[], Response | None]:
    """Make what looks at a start before Locust does: the form shows why it is refused."""

    def refuse() -> Response | None:
        if request.endpoint != "locust.swarm":
            return None
        if web_ui.web_login and not current_user.is_authenticated:
            return None  # Locust itself refuses
        try:
            check(request.form)
        except FleetError as error:
            said = {"success": False, "message": str(error), "host": web_ui.environment.host}
            return jsonify(said)
        return None

    return refuse


def _extension(tables: Sequence[Table]) -> Callable[[Response], Response]:
    """Make what adds our rows to the statistics that the page polls, and a link to the page."""

    def extend(response: Response) -> Response:
        if response.status_code != 200:  # without a login that is a refusal
            return response
        if request.endpoint == "locust.request_stats" and response.is_json:
            stats: dict[str, Any] = {**(response.json or {})}
            stats["extended_stats"] = [{"key": item.key, "data": item.rows()} for item in tables]
            response.set_data(orjson.dumps(stats))
        elif request.endpoint == "locust.index" and response.mimetype == "text/html":
            page, link = response.get_data(as_text=True), _LINK.format(prefix=PREFIX)
            response.set_data(page.replace("</body>", link))
        return response

    return extend
