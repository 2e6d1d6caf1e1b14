"""Ask an endpoint the two questions that show it serves: which models, and one chat.

A frontend without any worker answers `/health` with 200, so health alone proves nothing.
"""

from __future__ import annotations

import json
import ssl
from contextlib import nullcontext
from functools import cache
from typing import Any

import httpx2

SMOKE_TIMEOUT_S = 20.0
MOST_BYTES = 1 << 20  # of an answer of two tokens


@cache
def _trusted() -> ssl.SSLContext:
    """Load the trusted certificates once: it costs 30 ms, and probes ask all the time."""
    return httpx2.create_ssl_context(trust_env=False)


def _get(url: str, timeout_s: float) -> httpx2.Response:
    return httpx2.get(url, timeout=timeout_s, trust_env=False, verify=_trusted())


def http_ok(url: str, *, timeout_s: float = 2.0) -> bool:
    """Tell whether a GET is answered with a status below 400, as an httpGet probe does."""
    try:
        return _get(url, timeout_s).status_code < 400
    except httpx2.HTTPError:
        return False


def listed_models(base_url: str, *, timeout_s: float = 2.0) -> tuple[str, ...]:
    """Return the ids that `/v1/models` lists; none when the endpoint does not answer."""
    try:
        reply = _get(f"{base_url}/v1/models", timeout_s)
        reply.raise_for_status()
        return tuple(model["id"] for model in reply.json()["data"])
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return ()


def chat_answers(base_url: str, model: str) -> bool:
    """Tell whether one short chat gets an answer with generated tokens."""
    reply = _chat(base_url, model)
    try:
        return int(reply["usage"]["completion_tokens"]) > 0
    except (ValueError, KeyError, TypeError):
        return False


def reports_cached(base_url: str, model: str) -> bool:
    """Tell whether an answer says how many tokens of the prompt were cached."""
    reply = _chat(base_url, model)
    try:
        return int(reply["usage"]["prompt_tokens_details"]["cached_tokens"]) >= 0
    except (ValueError, KeyError, TypeError):
        return False


def worker_answers(
    base_url: str,
    model: str,
    worker: str,
    prefill: str | None = None,
    http: httpx2.Client | None = None,
) -> bool:
    """Tell whether one worker of a Dynamo frontend answers, asked by its instance id.

    Where prefill and decode are apart both workers are named, and both have to work. `http`: a
    client that is let through to the frontend, where not everyone is.
    """
    chosen = {"decode_worker_id": int(worker)}
    asked = {"backend_instance_id": int(worker)}
    if prefill is not None:
        chosen["prefill_worker_id"] = int(prefill)
        asked = chosen
    reply = _chat(base_url, model, http, nvext={**asked, "extra_fields": ["worker_id"]})
    try:
        return chosen.items() <= dict(reply["nvext"]["worker_id"]).items()
    except (ValueError, KeyError, TypeError):
        return False


def serves(base_url: str, model: str) -> bool:
    """Tell whether the endpoint lists the model and answers a chat."""
    return model in listed_models(base_url) and chat_answers(base_url, model)


def _chat(
    base_url: str, model: str, http: httpx2.Client | None = None, **more: object
) -> dict[str, Any]:
    """Ask for one short chat; an answer that is none is empty."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    url, asked = f"{base_url}/v1/chat/completions", {**body, **more}
    own = nullcontext(http) if http else httpx2.Client(trust_env=False, verify=_trusted())
    try:
        with (
            own as client,
            client.stream("POST", url, json=asked, timeout=SMOKE_TIMEOUT_S) as reply,
        ):
            reply.raise_for_status()
            return dict(json.loads(_bounded(reply)))
    except (httpx2.HTTPError, ValueError, TypeError):
        return {}


def _bounded(reply: httpx2.Response) -> bytes:
    content = b""
    for part in reply.iter_bytes():
        content += part
        if len(content) > MOST_BYTES:
            raise ValueError("an answer without end")
    return content
