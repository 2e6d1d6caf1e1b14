"""Stand in for the API server in tests of what talks to it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
from lightkube.core.exceptions import ApiError

from lab.api import plain
from lab.pods import PodView


class FakeStore:
    """Pods that a test puts in."""

    def __init__(self) -> None:
        self.pods: dict[str, PodView] = {}
        self.listeners: list[Callable[[PodView, bool], None]] = []

    def subscribe(self, listener: Callable[[PodView, bool], None]) -> None:
        self.listeners.append(listener)

    def get(self, name: str) -> PodView | None:
        return self.pods.get(name)

    def all(self) -> tuple[PodView, ...]:
        return tuple(self.pods.values())

    def put(self, pod: PodView, *, gone: bool = False) -> None:
        """Let listeners hear of a pod."""
        self.pods[pod.name] = pod
        if gone:
            del self.pods[pod.name]
        for listener in self.listeners:
            listener(pod, gone)


class Listed(list[Any]):
    """What a list of objects tells beside them."""

    resourceVersion = "1"  # noqa: N815 - as the client spells it


@dataclass
class FakeApi:
    """Keeps what is written, and wakes whoever waits for it."""

    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    statuses: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    events: queue.Queue[tuple[str, Any] | None] = field(default_factory=queue.Queue)
    watched: threading.Event = field(default_factory=threading.Event)

    def get(self, kind: type, name: str, **_: Any) -> Any:
        try:
            raw = self.objects[kind.__name__, name]
        except KeyError:
            raise not_found(name) from None
        return kind.from_dict(raw)  # type: ignore[attr-defined]

    def list(self, kind: type, **_: Any) -> Listed:
        found = [raw for (name, _), raw in self.objects.items() if name == kind.__name__]
        return Listed(kind.from_dict(raw) for raw in found)  # type: ignore[attr-defined]

    def watch(self, kind: type, **_: Any) -> Iterator[tuple[str, Any]]:
        """Tell what is kept or removed from now on; end when a test says so."""
        self.watched.set()
        while (event := self.events.get(timeout=60)) is not None:
            operation, item = event
            if isinstance(item, kind):
                yield operation, item

    def tell(self, operation: str, item: object) -> None:
        """Change an object, and let those who watch hear of it."""
        if operation == "DELETED":
            raw = plain(item)
            del self.objects[type(item).__name__, raw["metadata"]["name"]]
        else:
            self._keep(item)
        self.events.put((operation, item))

    def apply(self, item: object, **_: Any) -> None:
        self._keep(item)

    def create(self, item: object, *_: Any, **__: Any) -> None:
        self._keep(item)

    def patch(self, _kind: type, name: str, body: dict[str, Any], **_: Any) -> None:
        with self.changed:
            self.statuses.append((name, body["status"]))
            self.changed.notify_all()

    def delete(self, _kind: type, name: str, **_: Any) -> None:
        with self.changed:
            self.deleted.append(name)
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> bool:
        """Wait until something written makes a condition true."""
        with self.changed:
            return self.changed.wait_for(condition, timeout_s)

    def ready(self) -> bool:
        """Tell whether the last status says Ready."""
        conditions = {c["type"]: c["status"] for c in self.statuses[-1][1]["conditions"]}
        return conditions["Ready"] == "True"

    def _keep(self, item: object) -> None:
        raw = plain(item)
        raw["metadata"].setdefault("uid", f"uid-of-{raw['metadata']['name']}")
        self.objects[type(item).__name__, raw["metadata"]["name"]] = raw


def not_found(name: str) -> ApiError:
    """Make the error of a missing object."""
    request = httpx2.Request("GET", "https://127.0.0.1/")
    body = {"code": 404, "message": f"{name} not found", "status": "Failure"}
    return ApiError(request=request, response=httpx2.Response(404, json=body, request=request))
