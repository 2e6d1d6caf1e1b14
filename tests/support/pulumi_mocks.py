"""Stand in for Pulumi's engine, and keep every request that a program makes of it.

Pulumi's own mocks see inputs only. A monitor sees what decides over life and
death too: protect, retain, aliases, ignored changes, the provider.
"""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from google.protobuf import json_format
from pulumi.runtime import get_root_resource, mocks
from pulumi.runtime.settings import set_root_resource

Request = Any  # pulumirpc.RegisterResourceRequest has no type hints
PROJECT = "k3fleet-test"
STACK = "test"


class Recorder(mocks.Mocks):
    """An engine that accepts everything."""

    def __init__(
        self,
        outputs: Mapping[str, Any] | None = None,
        computed: Mapping[str, Mapping[str, Any]] | None = None,
        answers: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        self.outputs = dict(outputs or {})  # of the stack's last update
        self.computed = computed or {}  # type -> what only the cloud knows of such a resource
        self.answers = answers or {}  # function of a provider -> what the cloud says

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Give an id, and the inputs back as outputs."""
        if args.typ == "pulumi:pulumi:StackReference":
            return args.name, {"outputs": self.outputs, "secretOutputNames": []}
        outputs: dict[str, Any] = {"arn": f"arn:mock:{args.name}", **args.inputs}
        for key, value in self.computed.get(args.typ, {}).items():
            given = outputs.get(key)
            outputs[key] = {**given, **value} if isinstance(given, dict) else value
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Answer a function of a provider, with nothing if no answer is known."""
        return self.answers.get(args.token, {}), []


class Monitor(mocks.MockMonitor):
    """Keeps each request, because the mocks themselves see no options."""

    def __init__(
        self,
        outputs: Mapping[str, Any] | None = None,
        computed: Mapping[str, Mapping[str, Any]] | None = None,
        answers: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(Recorder(outputs, computed, answers))
        self.requests: list[Request] = []

    def RegisterResource(self, request: Request) -> Any:  # noqa: N802 - the name of the call
        """Keep the request, and answer it."""
        self.requests.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a program asked of the engine for one resource, in plain data."""

    type: str
    name: str
    inputs: dict[str, Any]
    provider: str  # logical name of the provider resource; "": the default one
    protect: bool
    retain: bool
    replaced_after_delete: bool
    aliases: tuple[str, ...]  # former logical names
    ignored: tuple[str, ...]
    needs: frozenset[str]  # logical names
    timeouts: Mapping[str, str]


def run_in(
    monitor: Monitor, program: Callable[[], object], *, project: str = PROJECT, stack: str = STACK
) -> None:
    """Run a program against a monitor, and wait for everything that it declares."""
    set_root_resource(None)  # type: ignore[arg-type] # else outputs of the last program stay
    mocks.set_mocks(Recorder(), project=project, stack=stack, monitor=monitor)
    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]


def run_entry(monitor: Monitor, folder: Path, stack: str, config: Mapping[str, str]) -> None:
    """Run the entry file of a project folder as `pulumi up` does, with a stack's configuration."""
    project = f"k3fleet-{folder.name}"
    pulumi.runtime.set_all_config({f"{project}:{key}": value for key, value in config.items()})
    entry = str(folder / "__main__.py")
    run_in(
        monitor,
        lambda: runpy.run_path(entry, run_name="__main__"),
        project=project,
        stack=stack,
    )


def exported() -> dict[str, object]:
    """Give what the last program exports: values, or why there is none."""
    root: Any = get_root_resource()

    async def outputs() -> list[object]:
        waiting = [pulumi.Output.from_input(output).future() for output in root.outputs.values()]
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = asyncio.get_event_loop().run_until_complete(outputs())
    return dict(zip(root.outputs, found, strict=True))


def registrations(monitor: Monitor) -> dict[str, Registration]:
    """Give the resources of a program by `type::name`, as an URN ends."""
    found = {}
    for request in monitor.requests:
        key = f"{request.type}::{request.name}"
        assert key not in found, f"{key} is declared twice"
        if request.custom:
            found[key] = _registration(request)
    return found


def _registration(request: Request) -> Registration:
    timeouts = request.customTimeouts
    return Registration(
        type=request.type,
        name=request.name,
        inputs=json_format.MessageToDict(request.object),
        provider=_last_of_urn(request.provider.rpartition("::")[0]),
        protect=request.protect,
        retain=request.retainOnDelete,
        replaced_after_delete=request.deleteBeforeReplace,
        aliases=tuple(sorted(alias.spec.name for alias in request.aliases)),
        ignored=tuple(sorted(request.ignoreChanges)),
        needs=frozenset(map(_last_of_urn, request.dependencies)),
        timeouts={
            name: value
            for name in ("create", "update", "delete")
            if (value := getattr(timeouts, name))
        },
    )


def _last_of_urn(urn: str) -> str:
    return urn.rpartition("::")[2]
