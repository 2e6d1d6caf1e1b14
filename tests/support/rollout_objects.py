"""An API server that a test owns: a few objects, and a way to be out of reach."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.errors import ApplyError
from infra.rollout.lease import Holder, Time
from infra.rollout.objects import ChangedError, Kind, Object

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class FakeTime:
    """A time that passes only when somebody waits; `later` is what happens meanwhile."""

    seconds: float = 0.0
    later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def of(self, skew_s: float = 0.0) -> Time:
        """Give the clocks of one machine."""
        return Time(
            clock=lambda: self.seconds,
            now=lambda: NOON + timedelta(seconds=self.seconds + skew_s),
            pause=self.pause,
        )

    def pause(self, seconds: float) -> None:
        self.seconds += seconds
        for item in [item for item in self.later if item[0] <= self.seconds]:
            self.later.remove(item)
            item[1]()


@dataclass
class FakeObjects:
    """The objects of a region."""

    region: str = "east"
    down: bool = False
    deaf: bool = False  # does what is asked, and its answer gets lost
    items: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    version: int = 0
    touch: Callable[[], None] = lambda: None  # called before and after whatever changes something

    def get(self, kind: Kind, name: str) -> Object | None:
        self._reach()
        return copy.deepcopy(self.items.get((kind, name)))

    def list(self, kind: Kind, label: str) -> list[Object]:
        self._reach()
        return [
            copy.deepcopy(item)
            for (of, _), item in sorted(self.items.items())
            if of == kind and label in item["metadata"].get("labels", {})
        ]

    def write(self, kind: Kind, item: Object) -> Object:
        self.touch()
        self._reach()
        key = (kind, item["metadata"]["name"])
        now = self.items.get(key, {}).get("metadata", {}).get("resourceVersion")
        if item["metadata"].get("resourceVersion") != now:
            raise ChangedError(key[1])
        self._put(key, copy.deepcopy(dict(item)))
        if self.deaf:
            raise ApplyError(f"{self.region}: no answer.")
        return copy.deepcopy(self.items[key])

    def merge(self, kind: Kind, name: str, patch: Object) -> None:
        self.touch()
        self._reach()
        item = copy.deepcopy(self.items[(kind, name)])
        for key, value in patch["data"].items():
            data = item.setdefault("data", {})
            data.update({key: value}) if value is not None else data.pop(key, None)
        self._put((kind, name), item)

    def delete(self, kind: Kind, name: str) -> None:
        self._reach()
        self.items.pop((kind, name), None)

    def _put(self, key: tuple[str, str], item: dict[str, Any]) -> None:
        self.version += 1
        item["metadata"] = {**item["metadata"], "resourceVersion": str(self.version)}
        self.items[key] = item
        self.touch()

    def _reach(self) -> None:
        if self.down:
            raise ApplyError(f"{self.region}: its API server does not answer.")


def holder(name: str, *, gone: tuple[str, ...] = ()) -> Holder:
    """Give an operator; `gone` are processes of his machine that have ended."""
    return Holder(name=name, process=f"process of {name}", is_gone=lambda other: other in gone)
