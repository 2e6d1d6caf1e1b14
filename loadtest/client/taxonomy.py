"""Name the class of a failed request, the same words in every report.

An HTTP 200 is not success: a worker that dies ends its streams with an error frame, or just ends
them. Those classes come from the SSE reader; here are the ones of HTTP and of the network.
`taxonomy.yaml` says what each class means.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

_BY_STATUS: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    413: "too_large",
    429: "rate_limited",
    499: "client_abort",
    529: "overloaded",
}
_OVERFLOW = (
    b"context length",
    b"context_length",
    b"maximum context",
    b"too long",
    b"max_model_len",
)
_NO_MODEL = (b"not_found", b"not found", b"unknown", b"not exist")


class ErrorClass(BaseModel):
    """Say what one class of failures means and where to look first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    side: Literal["network", "gateway", "engine", "load", "client"]
    meaning: str


@cache
def error_classes() -> Mapping[str, ErrorClass]:
    """Read all classes, by name."""
    text = Path(__file__).with_name("taxonomy.yaml").read_text(encoding="utf-8")
    classes = TypeAdapter(list[ErrorClass]).validate_python(yaml.safe_load(text))
    return {item.name: item for item in classes}


def error_class(error: str) -> ErrorClass:
    """Give what is known of the class that a record names."""
    return error_classes().get(error, error_classes()["http_other"])


def classify_status(status: int, body: bytes) -> str:
    """Name the class of an HTTP answer that is no 200."""
    text = body.lower()
    if status in {400, 413} and any(hint in text for hint in _OVERFLOW):
        return "context_overflow"
    if status == 404 and b"model" in text and any(hint in text for hint in _NO_MODEL):
        return "model_not_found"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 300 <= status < 400:
        return "redirect"
    return "server_5xx" if 500 <= status < 600 else f"http_{status}"


def classify_body(content_type: str, body: bytes) -> tuple[str, str]:
    """Name class and detail of an answer with status 200 that is no stream."""
    text = body.decode("utf-8", "replace")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("error"):
        return "in_stream_error", text
    return "not_a_stream", f"{content_type or 'no content type'}: {text}"


def classify_wire(kind: str, status: int, chunks: int) -> str:
    """Name the class of a failure below HTTP by when it came: before or within the answer."""
    if kind == "timeout_read":
        return "timeout_gap" if chunks else "timeout_first_token"
    if kind in {"reset", "bad_http"} and status == 200:
        return "truncated"
    return kind
