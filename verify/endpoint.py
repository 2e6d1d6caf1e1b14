"""Ask an endpoint before a load is sent to it: does it speak the API, and has it the model?"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx2

from fleet.errors import ConfigError
from fleet.schema import found_text, suggestion

TIMEOUT_S = 20.0
MODELS_PATH = "/v1/models"
_SHOWN_MODELS = 20


def require_model(
    where: str,
    base_url: str,
    model: str,
    headers: Mapping[str, str],
    *,
    ca_file: Path | None = None,
) -> str | None:
    """Raise ConfigError, which begins with `where`, when the endpoint cannot serve the model.

    Returns a remark when the endpoint does not say which models it has.
    """
    at = f"{where}: {base_url}"
    if base_url.rstrip("/").endswith("/v1"):
        raise ConfigError(f"{at}: ends with /v1, which is added to it. Leave /v1 out.")
    reply = _get(at, base_url.rstrip("/") + MODELS_PATH, headers, ca_file)
    if reply.status_code in {401, 403}:
        raise ConfigError(
            f"{at}: refuses the key (HTTP {reply.status_code}). "
            "Give the file of a valid one: --api-key-file FILE."
        )
    if _is_html(reply):
        raise ConfigError(
            f"{at}: answers with a web page (HTTP {reply.status_code}), not with the chat API. "
            "Give the base URL of the gateway or of the server, without /v1."
        )
    if reply.status_code == 404:
        return f"{where}: does not list its models, so the name {model!r} was not checked"
    if reply.status_code >= 300:
        raise ConfigError(
            f"{at}{MODELS_PATH}: answers HTTP {reply.status_code}. "
            "Start the server first, or check the URL."
        )
    _require_listed(at, reply, model)
    return None


def _get(at: str, url: str, headers: Mapping[str, str], ca_file: Path | None) -> httpx2.Response:
    context = ssl.create_default_context(cafile=ca_file)
    try:
        return httpx2.get(
            url, headers=dict(headers), timeout=TIMEOUT_S, trust_env=False, verify=context
        )
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise ConfigError(
                f"{at}: has a certificate of an authority that is not known here. "
                "Name its certificates: client.ca_file in the file of --settings."
            ) from error
        raise _silent(at, error) from error


def _silent(at: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{at}: does not answer ({type(error).__name__}). Start the server first, or check the URL."
    )


def _is_html(reply: httpx2.Response) -> bool:
    kind = reply.headers.get("content-type", "")
    return "html" in kind or reply.content[:64].lstrip().lower().startswith(
        (b"<!doctype", b"<html")
    )


def _require_listed(at: str, reply: httpx2.Response, model: str) -> None:
    try:
        listed = [str(entry["id"]) for entry in reply.json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{at}{MODELS_PATH}: answers with something that is no list of models. "
            "Give the base URL of a server that speaks the OpenAI API."
        ) from error
    if model not in listed:
        fix = suggestion(model, listed[:_SHOWN_MODELS]) if listed else "It serves none yet"
        raise ConfigError(f"{at}: does not serve the model {found_text(model)}. {fix}.")
