"""Over what frontends and engines speak with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from infra.lint.commands import Command
from infra.lint.pods import Workload
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.sides import sides


class _Plane(NamedTuple):
    title: str
    flag: str
    variable: str
    default: str | None  # None: it depends on the discovery

    def of(self, workload: Workload, command: Command) -> str | None:
        """Return what a program speaks; None: nobody can know."""
        if command.has(self.flag):
            return command.given.text(self.flag)
        if self.variable in command.env:
            return command.env[self.variable]
        graph = workload.manifest.kind == "DynamoGraphDeployment"  # its operator may set one
        return None if graph else self.default


# Defaults of the argument parsers in the wheels of Dynamo 1.4.2 and 1.6.1.
_PLANES = (
    _Plane("the request plane", "--request-plane", "DYN_REQUEST_PLANE", "tcp"),
    _Plane("the event plane", "--event-plane", "DYN_EVENT_PLANE", None),
)


def _planes(scene: Scene) -> Iterator[Spot]:
    """Blame the frontend where the engines agree with each other, else the engines."""
    for side in sides(scene).values():
        for plane in _PLANES:
            workers = [(item, found) for item in side.workers if (found := plane.of(*item))]
            frontends = [(item, found) for item in side.frontends if (found := plane.of(*item))]
            engines, fronts = {found for _, found in workers}, {found for _, found in frontends}
            if not engines or not fronts:
                continue
            blamed, right = (frontends, engines) if len(engines) == 1 else (workers, fronts)
            for (workload, command), found in blamed:
                if found not in right:
                    what = f"{plane.title} is {found} here, {' or '.join(sorted(right))} at the "
                    what += "engines" if blamed is frontends else "frontends"
                    yield Spot(workload.manifest, command.container.path, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="X009",
        severity="error",
        title="Frontends and engines speak over the same planes",
        reason="Requests, or KV events, are sent where nobody listens.",
        source="https://docs.nvidia.com/dynamo/dev/knowledge-base/concepts/communication-planes/request-plane",
        fix="Set the same DYN_REQUEST_PLANE and DYN_EVENT_PLANE on both, or drop the flag.",
        check=_planes,
    ),
)
