"""Decide which changes of a plan nobody has allowed. Pure: a preview comes in, findings go out.

A plan is refused when it takes away, makes anew or restarts what serves. Each
such change can be allowed by name; what is protected only by its whole name, so
that no pattern ever hits it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from infra.stack_events import Touched

Taking = Literal["replace", "delete", "restart"]

_TAKING: dict[str, Taking] = {
    "replace": "replace",
    "create-replacement": "replace",
    "delete-replaced": "replace",
    "delete": "delete",
}
# New ConfigMaps come with a new file, and the old ones go with the last pod that reads them.
_COMES_AND_GOES = frozenset({"ConfigMap"})
# A change below these makes every pod of a replica anew.
_RESTARTS_ON = {
    "LeaderWorkerSet": "spec.leaderWorkerTemplate",
    "DynamoGraphDeployment": "spec.",
}
_SHOWN_PATHS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the user has named: `Kind/namespace/name` or a URN, or a pattern of one."""

    replace: frozenset[str] = frozenset()
    delete: frozenset[str] = frozenset()
    restart: frozenset[str] = frozenset()

    def has(self, taking: Taking, item: Touched, *, exactly: bool) -> bool:
        """Say whether a change was named; `exactly`: patterns do not count."""
        named: Collection[str] = getattr(self, taking)
        if item.name in named or item.urn in named:
            return True
        return not exactly and any(fnmatchcase(item.name, pattern) for pattern in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A change that was not allowed."""

    stack: str
    taking: Taking
    item: Touched
    protected: bool

    def __str__(self) -> str:
        """Say what it is, what forces it, and how it can be allowed."""
        paths = self.item.forced_by or self.item.changed
        because = f", because of {', '.join(paths[:_SHOWN_PATHS])}" if paths else ""
        name = self.item.name
        return f"{self.taking} {name}{because}. {self._fix(name)}"

    def _fix(self, name: str) -> str:
        match self.taking, self.protected:
            case "replace", True:
                return (
                    "It is protected, and is never made anew under what stands on it: let it go "
                    f"by `k3fleet destroy --allow-delete {name}`, then bring it up again."
                )
            case "delete", True:
                return f"It is protected. To let it go, name it whole: --allow-delete {name}."
            case _:
                return f"To allow it: --allow-{self.taking} {name}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Knows what is protected, what was allowed, and what a rollout is turning."""

    allowed: Allowed = field(default_factory=Allowed)
    protected_kinds: frozenset[str] = frozenset()  # kinds of Kubernetes, type tokens of clouds
    owned: frozenset[str] = frozenset()  # replicas whose new release a rollout has written down

    def findings(self, stack: str, touched: Iterable[Touched]) -> tuple[Finding, ...]:
        """List what a plan does that was not allowed, each object once."""
        found = {
            (item.urn or item.name): Finding(
                stack=stack, taking=taking, item=item, protected=self.protects(item)
            )
            for item, taking in self._takings(touched)
            if not self._may(taking, item)
        }
        return tuple(found.values())

    def leftover(self, stack: str, touched: Iterable[Touched]) -> tuple[Finding, ...]:
        """List what a teardown takes of what is protected; it may take all else."""
        every = self.findings(stack, (item for item in touched if self.protects(item)))
        return tuple(one for one in every if one.taking != "restart")

    def protects(self, item: Touched) -> bool:
        """Say whether an object is protected, by the state or by what it is."""
        kind = item.kind if item.type.startswith("kubernetes:") or not item.type else item.type
        return item.protected or kind in self.protected_kinds

    def _may(self, taking: Taking, item: Touched) -> bool:
        if self.protects(item):
            return taking == "delete" and self.allowed.has(taking, item, exactly=True)
        return self.allowed.has(taking, item, exactly=False)

    def _takings(self, touched: Iterable[Touched]) -> Iterator[tuple[Touched, Taking]]:
        for item in touched:
            taking = _TAKING.get(item.operation)
            if taking == "delete" and item.kind in _COMES_AND_GOES:
                continue
            if taking:
                yield item, taking
            elif self._restarts(item):
                yield item, "restart"

    def _restarts(self, item: Touched) -> bool:
        below = _RESTARTS_ON.get(item.kind)
        if item.operation != "update" or below is None:
            return False
        if item.name.rpartition("/")[2] in self.owned:
            return False
        return any(path.startswith(below) for path in item.changed)


def told(findings: Iterable[Finding]) -> str:
    """Say all findings, one a line, those of each stack together."""
    return _lines(findings, lambda one: f"{one.stack}: {one}")


def _lines(findings: Iterable[Finding], line: Callable[[Finding], str]) -> str:
    return "\n".join(line(one) for one in findings)
