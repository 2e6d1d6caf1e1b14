"""Ask an endpoint the two questions that show it serves: which models, and one chat.

A frontend without any worker answers `/health` with 200, so health alone proves nothing.
"""

from __future__ import annotations

import httpx2

SMOKE_TIMEOUT_S = 20.0


def http_ok(url: str, *, timeout_s: float = 2.0) -> bool:
    """Tell whether a GET is answered with a status below 400, as an httpGet probe does."""
    try:
        return httpx2.get(url, timeout=timeout_s, trust_env=False).status_code < 400
    except httpx2.HTTPError:
        return False


def listed_models(base_url: str, *, timeout_s: float = 2.0) -> tuple[str, ...]:
    """Return the ids that `/v1/models` lists; none when the endpoint does not answer."""
    try:
        reply = httpx2.get(f"{base_url}/v1/models", timeout=timeout_s, trust_env=False)
        reply.raise_for_status()
        return tuple(model["id"] for model in reply.json()["data"])
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return ()


def chat_answers(base_url: str, model: str, *, timeout_s: float = SMOKE_TIMEOUT_S) -> bool:
    """Tell whether one short chat gets an answer with generated tokens."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    try:
        reply = httpx2.post(
            f"{base_url}/v1/chat/completions", json=body, timeout=timeout_s, trust_env=False
        )
        reply.raise_for_status()
        return int(reply.json()["usage"]["completion_tokens"]) > 0
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return False


def worker_answers(base_url: str, model: str, worker: str) -> bool:
    """Tell whether one worker of a Dynamo frontend answers, asked by its instance id."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2,
        "nvext": {"backend_instance_id": int(worker), "extra_fields": ["worker_id"]},
    }
    try:
        reply = httpx2.post(
            f"{base_url}/v1/chat/completions", json=body, timeout=SMOKE_TIMEOUT_S, trust_env=False
        )
        reply.raise_for_status()
        return str(reply.json()["nvext"]["worker_id"]["decode_worker_id"]) == worker
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return False


def serves(base_url: str, model: str) -> bool:
    """Tell whether the endpoint lists the model and answers a chat."""
    return model in listed_models(base_url) and chat_answers(base_url, model)
