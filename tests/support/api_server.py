"""Speak to a real API server as strictly as it can be asked to be.

Server-side apply with `fieldValidation=Strict`: a field that a kind does not have is an error, and
two managers that want different values are a conflict. No client in the way: what is sent is what
was rendered.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

KubeObject = Mapping[str, Any]
MANAGER = "k3fleet"
CREATED, UNCHANGED = 201, 200
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API server said to one request."""

    code: int
    body: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether the object was taken."""
        return self.code in (UNCHANGED, CREATED)

    def __str__(self) -> str:
        """Say it on one line."""
        return " ".join((str(self.code), self.message, *self.warnings))

    @property
    def message(self) -> str:
        """Why the object was not taken."""
        return str(self.body.get("message", ""))

    @property
    def version(self) -> str:
        """The object's resourceVersion, which changes with the object."""
        return str(self.body["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """Where objects of one kind are."""

    path: str
    plural: str
    namespaced: bool

    def url(self, item: KubeObject) -> str:
        place = f"/namespaces/{item['metadata']['namespace']}" if self.namespaced else ""
        return f"{self.path}{place}/{self.plural}/{item['metadata']['name']}"


@dataclass(kw_only=True)
class ApiServer:
    """A client of one API server, as its administrator or with a bearer token."""

    url: str
    pki: Path
    token: str | None = None
    _resources: dict[tuple[str, str], _Resource] = field(default_factory=dict)

    def __post_init__(self) -> None:
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        if self.token is None:
            context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        self._http = httpx2.Client(
            base_url=self.url, verify=context, trust_env=False, timeout=TIMEOUT_S, headers=headers
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def with_token(self, token: str) -> ApiServer:
        """Give a client for another identity."""
        return ApiServer(url=self.url, pki=self.pki, token=token, _resources=self._resources)

    def apply(self, item: KubeObject, *, keep: bool, manager: str = MANAGER) -> Answer:
        """Apply an object; without `keep` everything happens but the writing (`dryRun=All`)."""
        asked = {"fieldManager": manager, "fieldValidation": "Strict"}
        return self.send(
            "PATCH",
            self._resource(item).url(item),
            item,
            asked if keep else {**asked, "dryRun": "All"},
            kind="application/apply-patch+yaml",  # JSON is YAML
        )

    def merge(self, item: KubeObject, change: Mapping[str, Any]) -> Answer:
        """Change a part of an object that is there."""
        url = self._resource(item).url(item)
        return self.send("PATCH", url, change, kind="application/merge-patch+json")

    def read(self, item: KubeObject) -> Answer:
        """Read an object, also one that is not there."""
        return self.send("GET", self._resource(item).url(item))

    def knows(self, item: KubeObject) -> bool:
        """Whether the API server serves the object's kind."""
        return self._find(item) is not None

    def send(
        self,
        method: str,
        url: str,
        content: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        *,
        kind: str = "application/json",
    ) -> Answer:
        """Send a request, and read what comes back."""
        text = None if content is None else json.dumps(content)
        reply = self._http.request(
            method, url, content=text, params=params, headers={"Content-Type": kind}
        )
        spoken = "json" in reply.headers.get("Content-Type", "")  # unknown paths get plain text
        return Answer(
            code=reply.status_code,
            body=reply.json() if spoken else {"message": reply.text},
            warnings=tuple(reply.headers.get_list("Warning")),
        )

    def _resource(self, item: KubeObject) -> _Resource:
        found = self._find(item)
        assert found is not None, (
            f"{item['apiVersion']} {item['kind']}: the server has no such kind"
        )
        return found

    def _find(self, item: KubeObject) -> _Resource | None:
        api_version, kind = item["apiVersion"], item["kind"]
        if (api_version, kind) not in self._resources:
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            answer = self.send("GET", path)
            for listed in answer.body.get("resources", []):
                if "/" not in listed["name"]:  # no subresource
                    self._resources[api_version, listed["kind"]] = _Resource(
                        path=path, plural=listed["name"], namespaced=listed["namespaced"]
                    )
        return self._resources.get((api_version, kind))
