"""Name the class of a failed request, the same words in every report.

An HTTP 200 is not success: a worker that dies ends its streams with an error frame, or just ends
them. Those classes come from the SSE reader; here are the ones of HTTP and of the network.
"""

from __future__ import annotations

from collections.abc import Mapping

_BY_STATUS: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    413: "too_large",
    429: "rate_limited",
    499: "client_abort",
}
_OVERFLOW = (
    b"context length",
    b"context_length",
    b"maximum context",
    b"too long",
    b"max_model_len",
)


def classify_status(status: int, body: bytes) -> str:
    """Name the class of an HTTP answer that is no 200."""
    if status == 400 and any(hint in body.lower() for hint in _OVERFLOW):
        return "context_overflow"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return f"server_{status // 100}xx" if status >= 500 else f"http_{status}"


def classify_wire(kind: str, status: int, chunks: int) -> str:
    """Name the class of a failure below HTTP by when it came: before or within the answer."""
    if kind == "timeout_read":
        return "timeout_gap" if chunks else "timeout_first_token"
    if kind in {"reset", "bad_http"} and status == 200:
        return "truncated"
    return kind
