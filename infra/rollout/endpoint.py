"""Reach HTTP ports of pods: at their own address, or through the API server of their cluster.

A driver outside of a cluster has no way to its pods' addresses. The API server has one, the
subresource `pods/proxy`: a request to `…/pods/NAME:PORT/proxy/PATH` goes on to the pod, without
the credentials that it came with. Whoever drives needs `get` and `create` of it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

import httpx2

from fleet.errors import ApplyError
from infra.kubeconfig import NO_ANSWER

PAGE_S = 5.0
MOST_BYTES = 16 << 20  # of a page of metrics; an engine's has some hundred kilobytes


class Endpoint(NamedTuple):
    """One HTTP port of a pod, and the client that is let through to it."""

    pod: str
    url: str
    http: httpx2.Client

    def page(self, path: str) -> str | None:
        """Read a page; None where there is none, or one without end."""
        try:
            with self.http.stream("GET", f"{self.url}{path}", timeout=PAGE_S) as reply:
                text = _bounded(reply)
        except (httpx2.HTTPError, *NO_ANSWER):
            return None
        if reply.status_code == HTTPStatus.FORBIDDEN and '"kind":"Status"' in (text or "").replace(
            " ", ""
        ):
            raise ApplyError(
                f"{self.pod}: the API server does not let you through to pods. Have `get` and "
                "`create` of `pods/proxy` in the namespace granted (docs/rollout.md), then resume."
            )
        return text if reply.status_code == HTTPStatus.OK else None


def proxied(server: str, namespace: str, pod: str, port: int) -> str:
    """Give the address of a pod's port behind an API server."""
    return f"{server.rstrip('/')}/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy"


def _bounded(reply: httpx2.Response) -> str | None:
    parts, size = [], 0
    for part in reply.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            return None
    return b"".join(parts).decode("utf-8", "replace")
