"""Ask an endpoint before a load is sent to it: does it speak the API, and has it the model?"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Coroutine, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson

from fleet.errors import ConfigError
from fleet.schema import found_text, suggestion

TIMEOUT_S = 20.0
MOST_BYTES = 16 << 20
MODELS_PATH = "/v1/models"
_SHOWN_MODELS = 20
_SHOWN_CHARS = 200
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


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
    if reply.status in {401, 403}:
        raise ConfigError(
            f"{at}: refuses the key (HTTP {reply.status}). "
            "Give the file of a valid one: --api-key-file FILE."
        )
    if _is_html(reply):
        raise ConfigError(
            f"{at}: answers with a web page (HTTP {reply.status}), not with the chat API. "
            "Give the base URL of the gateway or of the server, without /v1."
        )
    if reply.status == 404:
        return f"{where}: does not list its models, so the name {model!r} was not checked"
    if reply.status >= 300:
        raise ConfigError(
            f"{at}{MODELS_PATH}: answers HTTP {reply.status}. "
            "Start the server first, or check the URL."
        )
    key = headers.get("Authorization", "").removeprefix("Bearer ")
    _require_listed(at, reply, model, key)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    status: int
    kind: str
    content: bytes


def _get(at: str, url: str, headers: Mapping[str, str], ca_file: Path | None) -> _Reply:
    context = ssl.create_default_context(cafile=ca_file)
    try:
        reply = _finish(_ask(url, headers, context))
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        # The time is for all of it: a byte now and then is no answer.
        what, fix = _silence(error)
        raise ConfigError(f"{at}: {what}. {fix}.") from error
    if len(reply.content) > MOST_BYTES:
        raise ConfigError(
            f"{at}{MODELS_PATH}: answers with more than {MOST_BYTES // 1024**2} MiB. "
            "Give the base URL of a server that speaks the OpenAI API."
        )
    return reply


def _finish(asked: Coroutine[Any, Any, _Reply]) -> _Reply:
    """Wait for it; unlike `asyncio.run` this takes no event loop away from others here."""
    with closing(asyncio.new_event_loop()) as loop:
        try:
            return loop.run_until_complete(asked)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())


async def _ask(url: str, headers: Mapping[str, str], context: ssl.SSLContext) -> _Reply:
    """Read the answer within limits of time and size, uncompressed: what is small stays small."""
    sent = {**headers, "Accept-Encoding": "identity"}
    client = httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False, verify=context)
    content = bytearray()
    async with asyncio.timeout(TIMEOUT_S), client, client.stream("GET", url, headers=sent) as reply:
        async for part in reply.aiter_raw():
            content += part
            if len(content) > MOST_BYTES:
                break
        kind = reply.headers.get("content-type", "")
        return _Reply(status=reply.status_code, kind=kind, content=bytes(content))


def _silence(error: Exception) -> tuple[str, str]:
    """Say why no answer came, and what to do."""
    cause = _first_cause(error)
    said = str(cause if isinstance(cause, OSError) else error)
    text = _ERRNO.sub("", said)[:_SHOWN_CHARS] or type(error).__name__
    if isinstance(cause, ConnectionRefusedError):
        return "does not answer: Connection refused", "Start the server first, or check the port"
    if isinstance(cause, socket.gaierror):
        return f"does not answer: {text}", "Check the name of the host"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"shows no certificate that is trusted here: {text}",
            "Name its issuer: client.ca_file in the file of --settings",
        )
    if isinstance(cause, ssl.SSLError):
        return f"does not speak TLS: {text}", "Check the port, or give an http:// URL"
    return f"does not answer: {text}", "Start the server first, or check the URL"


def _first_cause(error: BaseException) -> BaseException:
    """Look below the library's errors, which hold their cause as an argument."""
    inner = error.__cause__ or next(iter(error.args), None)
    return _first_cause(inner) if isinstance(inner, BaseException) else error


def _is_html(reply: _Reply) -> bool:
    return "html" in reply.kind or reply.content[:64].lstrip().lower().startswith(
        (b"<!doctype", b"<html")
    )


def _require_listed(at: str, reply: _Reply, model: str, key: str) -> None:
    try:
        listed = [str(entry["id"]) for entry in orjson.loads(reply.content)["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{at}{MODELS_PATH}: answers with something that is no list of models. "
            "Give the base URL of a server that speaks the OpenAI API."
        ) from error
    if model not in listed:
        # As in Python text, since terminals obey escapes; a server may name one after our key.
        kept = [name for name in listed[:_SHOWN_MODELS] if not (key and key in name)]
        shown = [found_text(name)[1:-1] for name in kept]
        fix = suggestion(model, shown) if shown else "It serves none yet"
        raise ConfigError(f"{at}: does not serve the model {found_text(model)}. {fix}.")
