"""Say whether this machine can run the lab: its tools, its compiler, its size. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.errors import ToolError
from fleet.units import format_bytes
from lab.builds import Workshop, existing_parent, room_problem
from lab.go_compiler import find_go
from lab.toolchain import LANGUAGE_HOST, Found, Missing, find_tools, missing_modules, tools_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolState:
    """One row: what is wanted, what there is, and what to do."""

    name: str
    wanted: str
    status: str  # ok, to build, missing
    found: str
    where: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All rows, the machine, and what stands in the way of a complete toolchain."""

    tools: tuple[ToolState, ...]
    machine: Mapping[str, str]
    problems: tuple[str, ...]


class _Nobody:
    """Hears nothing: a diagnosis has no progress to show."""

    def step(self, name: str) -> None: ...

    def update(self, text: str) -> None: ...


def diagnose(*, cache_dir: Path, environ: Mapping[str, str]) -> Diagnosis:
    """Look at everything the lab needs, and build nothing."""
    found = find_tools(cache_dir, environ.get("PATH", ""))
    tools = (*(_state(answer) for answer in found.values()), _language_host())
    problems = [
        f"{tool.name} {tool.wanted}: {tool.fix}" for tool in tools if tool.status == "missing"
    ]
    workshop = Workshop(folder=tools_folder(cache_dir), progress=_Nobody())
    modules = missing_modules(found)
    try:
        go = find_go(environ)
        go_text = f"{go.version} ({go.program})"
        room = room_problem(modules, go=go, workshop=workshop) if modules else None
        problems += [room] if room else []
    except ToolError as error:
        go_text = "not usable" if modules else "not usable, and not needed"
        problems += [str(error)] if modules else []
    return Diagnosis(
        tools=tools, machine=_machine(workshop, go_text=go_text), problems=tuple(problems)
    )


def _state(answer: Found | Missing) -> ToolState:
    tool = answer.tool
    if isinstance(answer, Found):
        return ToolState(
            name=tool.name,
            wanted=tool.version,
            status="ok",
            found=str(answer.origin),
            where=str(answer.path),
            fix="",
        )
    return ToolState(
        name=tool.name,
        wanted=tool.version,
        status="to build" if answer.buildable else "missing",
        found=answer.seen,
        where="",
        fix=answer.fix,
    )


def _language_host() -> ToolState:
    return ToolState(
        name=LANGUAGE_HOST,
        wanted="ours",
        status="ok",
        found="ours",
        where=str(Path(__file__).with_name("langhost.py")),
        fix="",
    )


def _machine(workshop: Workshop, *, go_text: str) -> dict[str, str]:
    memory = psutil.virtual_memory()
    free = workshop.free_bytes(existing_parent(workshop.folder))
    return {
        "cores": str(len(psutil.Process().cpu_affinity())),
        "memory": f"{_gib(memory.total)}, {_gib(memory.available)} free",
        "disk": f"{_gib(free)} free in {workshop.folder}",
        "go": go_text,
    }


def _gib(count: int) -> str:
    return format_bytes(count, binary=True)
