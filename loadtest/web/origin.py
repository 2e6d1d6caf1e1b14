"""Refuse requests that another web site makes through the browser of somebody who sees the page.

The page is on loopback, mostly without a login, so whatever a browser on that machine can reach
could start a load. Two things tell such requests apart: the origin a browser names, and, where a
foreign name was pointed at our address (DNS rebinding), the host that is asked for.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Response, request

if TYPE_CHECKING:  # importing Locust patches sockets and threads of the whole process
    from locust.web import WebUI

_READING = {"GET", "HEAD", "OPTIONS"}
_OWN_SITE = {None, "same-origin", "none"}  # of Sec-Fetch-Site: not told, our page, typed by hand
_LOGIN = "k3fleet_login.login"  # refuses by itself, and says so on its page


def guard(web_ui: WebUI) -> None:
    """Look at every request before the page does."""
    if web_ui.app is not None:
        web_ui.app.before_request(_refusal(web_ui))


def is_same_site() -> bool:
    """Tell whether our own page makes this request, or no browser at all."""
    origin = request.headers.get("Origin")
    told = request.headers.get("Sec-Fetch-Site")
    return told in _OWN_SITE and (origin is None or _place(origin) == request.host.lower())


def _refusal(web_ui: WebUI) -> Callable[[], Response | None]:
    options = web_ui.environment.parsed_options
    given = str(getattr(options, "web_host", None) or "").lower()
    names = {"localhost", socket.gethostname().lower(), given}

    def refuse() -> Response | None:
        # A login needs no such check: its cookie is sent to the name that it was made for.
        if not web_ui.web_login and not _is_ours(request.host, names):
            return _no(
                "Host: this page is not known by that name. Ask for its address, "
                "give the name as --web-host, or start it with --web-login."
            )
        if request.method not in _READING and request.endpoint != _LOGIN and not is_same_site():
            return _no("Origin: another site sent this. Use the page itself.")
        return None

    return refuse


def _is_ours(host: str, names: set[str]) -> bool:
    """Tell whether a host is an address, which no foreign name resolves to, or a known name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:  # a bracket that does not close
        return False
    if name in names or name.endswith(".localhost"):
        return bool(name)
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _no(why: str) -> Response:
    return Response(why + "\n", status=403, content_type="text/plain; charset=utf-8")
