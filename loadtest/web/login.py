"""Ask for a password, when the page is started with --web-login.

Locust leaves to its users who may log in. Here it is who knows the password that a file holds:
a path, so that no secret is in a command line.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Blueprint, redirect, request, session, url_for
from flask_login import UserMixin, login_user
from werkzeug.wrappers import Response

from fleet.errors import ConfigError, Problem
from fleet.yaml_document import file_content
from loadtest.web.origin import is_same_site

if TYPE_CHECKING:  # importing Locust patches sockets and threads of the whole process
    from locust.web import WebUI

_WHO = "operator"
_LEAST_CHARS = 8
_MOST_BYTES = 1024**2


class _Operator(UserMixin):  # type: ignore[misc]
    """Be whoever knows the password."""

    def get_id(self) -> str:
        """Name the only user there is."""
        return _WHO


def require_password(web_ui: WebUI, file: Path | None) -> None:
    """Let in who knows the password; raises ConfigError without one."""
    if web_ui.app is None:
        return
    password = _read_password(file)
    web_ui.app.secret_key = secrets.token_bytes(32)  # sessions end with the process
    web_ui.app.config |= {"SESSION_COOKIE_HTTPONLY": True, "SESSION_COOKIE_SAMESITE": "Strict"}
    web_ui.login_manager.user_loader(lambda name: _Operator() if name == _WHO else None)
    pages = Blueprint("k3fleet_login", __name__)

    @pages.route("/k3fleet-login", methods=["POST"])
    def login() -> Response:
        given = request.form.get("password", "")
        if not is_same_site() or not hmac.compare_digest(given.encode(), password.encode()):
            session["auth_error"] = "This is not the password."
            return redirect(url_for("locust.login"))
        login_user(_Operator())
        return redirect(url_for("locust.index"))

    options = web_ui.environment.parsed_options
    base = (options.web_base_path if options is not None else "") or ""
    web_ui.app.register_blueprint(pages, url_prefix=base or None)
    web_ui.auth_args = {
        "custom_form": {
            "inputs": [{"label": "Password", "name": "password", "is_secret": True}],
            "callback_url": f"{base}/k3fleet-login",
            "submit_button_text": "Log in",
        }
    }


def _read_password(file: Path | None) -> str:
    if file is None:
        raise ConfigError(
            "--web-login: nobody could log in. Give --web-password-file, a file with a password."
        )
    content = file_content(file, _MOST_BYTES, "Give a file that holds a password")
    if isinstance(content, Problem):
        raise ConfigError.of([content])
    try:
        password = content.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is no text. Give a file that holds a password.") from error
    if len(password) < _LEAST_CHARS:
        raise ConfigError(f"{file}: the password is too short. Use {_LEAST_CHARS} characters.")
    return password
