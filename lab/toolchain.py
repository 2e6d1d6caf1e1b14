"""Find the lab's tools, have the missing ones built, and say where each one is.

A tool on PATH is used when it is of the pinned version; then a build in the
cache; wheels are looked up in this environment. A run that finds everything
starts no process and opens no connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.errors import ToolError
from lab.builds import Progress, Workshop, build_modules, built_folder
from lab.tool_table import GoModule, Tool, Wheel, wanted_tools
from lab.version_memory import VersionMemory

LANGUAGE_HOST = "pulumi-language-python"
REINSTALL = "Install k3fleet's requirements again (`make setup`)"


class Origin(StrEnum):
    """Where a tool was found."""

    PATH = "PATH"
    BUILT = "built"
    WHEEL = "wheel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A tool of the wanted version. A library's path is the folder it is installed in."""

    tool: Tool
    path: Path
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A tool that is not there in the wanted version, and what to do about it."""

    tool: Tool
    seen: str
    fix: str

    @property
    def buildable(self) -> bool:
        """Whether k3fleet makes it by itself."""
        return isinstance(self.tool.source, GoModule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Absolute paths of every tool. `bin_dir` holds all by their names, for PATH's front."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    kwok: Path
    pulumi: Path
    pulumi_resource_kubernetes: Path
    pulumi_language_python: Path
    envoy: Path
    python: Path
    bin_dir: Path
    versions: Mapping[str, str]


def tools_folder(cache_dir: Path) -> Path:
    """Name the folder that holds everything the toolchain keeps."""
    return cache_dir / "tools"


def ensure_tools(*, cache_dir: Path, environ: Mapping[str, str], progress: Progress) -> Toolchain:
    """Return a complete toolchain, building what is missing; raise ToolError.

    `environ` gives PATH and the settings of Go (GOPROXY, GOCACHE …).
    """
    path = environ.get("PATH", "")
    found = find_tools(cache_dir, path)
    _refuse_unbuildable(found)
    modules = missing_modules(found)
    if modules:
        workshop = Workshop(folder=tools_folder(cache_dir), progress=progress)
        build_modules(modules, workshop=workshop, environ=environ)
        found = find_tools(cache_dir, path)
    return _toolchain(found, tools_folder(cache_dir))


def find_tools(cache_dir: Path, path: str) -> dict[str, Found | Missing]:
    """Look for every wanted tool on `path`, in the cache and among the installed wheels."""
    folder = tools_folder(cache_dir)
    memory = VersionMemory(file=folder / "versions.json", path=path)
    found = {tool.name: _find(tool, folder, memory) for tool in wanted_tools()}
    memory.save()
    return found


def missing_modules(found: Mapping[str, Found | Missing]) -> tuple[GoModule, ...]:
    """List the Go modules whose builds would make the missing tools, each once."""
    modules = {
        answer.tool.source.name: answer.tool.source
        for answer in found.values()
        if isinstance(answer, Missing) and isinstance(answer.tool.source, GoModule)
    }
    return tuple(modules.values())


def _find(tool: Tool, folder: Path, memory: VersionMemory) -> Found | Missing:
    if isinstance(tool.source, Wheel):
        return _find_wheel(tool, tool.source)
    seen = "nothing"
    for program in _all_on_path(tool.name, memory.path):
        version = memory.version(tool, program)
        if version == tool.version:
            return Found(tool=tool, path=program, origin=Origin.PATH)
        seen = f"{program}: {version or 'does not say its version'}"
    built = built_folder(folder, tool.source) / tool.name
    if built.exists():
        return Found(tool=tool, path=built.absolute(), origin=Origin.BUILT)
    fix = f"Nothing: built on first use ({tool.source.name})."
    return Missing(tool=tool, seen=seen, fix=fix)


def _all_on_path(name: str, path: str) -> Iterator[Path]:
    """List every program of that name, not only the first: the pinned one may come later."""
    for folder in filter(None, path.split(os.pathsep)):
        found = shutil.which(name, path=folder)
        if found:
            yield Path(found).absolute()


def _find_wheel(tool: Tool, wheel: Wheel) -> Found | Missing:
    """Find a wheel by its metadata: importing it would cost a second."""
    seen = "nothing"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        distribution = importlib.metadata.distribution(wheel.distribution)
        file = Path(str(distribution.locate_file(wheel.file or "")))
        if distribution.version == tool.version and file.exists():
            return Found(tool=tool, path=file.absolute(), origin=Origin.WHEEL)
        seen = f"{wheel.distribution} {distribution.version}"
    fix = f"{REINSTALL}: {wheel.distribution} {tool.version}."
    return Missing(tool=tool, seen=seen, fix=fix)


def _refuse_unbuildable(found: Mapping[str, Found | Missing]) -> None:
    hopeless = [
        answer for answer in found.values() if isinstance(answer, Missing) and not answer.buildable
    ]
    if hopeless:
        lines = [
            f"{answer.tool.name} {answer.tool.version}: found {answer.seen}. {answer.fix}"
            for answer in hopeless
        ]
        raise ToolError("\n".join(lines))


def _toolchain(found: Mapping[str, Found | Missing], folder: Path) -> Toolchain:
    paths: dict[str, Path] = {}
    for name, answer in found.items():
        if isinstance(answer, Missing):
            raise ToolError(f"{name}: not there after its build. {answer.fix}")
        paths[name] = answer.path
    bin_dir = _bin_dir(folder, {name: path for name, path in paths.items() if path.is_file()})
    return Toolchain(
        etcd=paths["etcd"],
        kube_apiserver=paths["kube-apiserver"],
        kube_controller_manager=paths["kube-controller-manager"],
        kube_scheduler=paths["kube-scheduler"],
        kubectl=paths["kubectl"],
        kwok=paths["kwok"],
        pulumi=paths["pulumi"],
        pulumi_resource_kubernetes=paths["pulumi-resource-kubernetes"],
        pulumi_language_python=bin_dir / LANGUAGE_HOST,
        envoy=paths["envoy"],
        python=Path(sys.executable),
        bin_dir=bin_dir,
        versions={name: answer.tool.version for name, answer in found.items()},
    )


def _bin_dir(folder: Path, programs: Mapping[str, Path]) -> Path:
    """Make, once, a folder with a link to each program and the language host's launcher.

    Its name holds the hash of its content, so two environments do not share one.
    """
    # -P: the program's folder must not come before our modules on sys.path.
    launcher = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -u -m lab.langhost "$@"\n'
    content = json.dumps([launcher, sorted((name, str(path)) for name, path in programs.items())])
    target = folder / f"bin-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    if target.is_dir():
        return target.absolute()
    try:
        _write_bin_dir(target, programs, launcher)
    except OSError as error:
        raise ToolError(
            f"{error.filename or folder}: {error.strerror}. The tools' cache must be writable; "
            "XDG_CACHE_HOME moves it."
        ) from error
    return target.absolute()


def _write_bin_dir(target: Path, programs: Mapping[str, Path], launcher: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".bin-", dir=target.parent))
    for name, path in programs.items():
        (draft / name).symlink_to(path)
    script = draft / LANGUAGE_HOST
    script.write_text(launcher)
    script.chmod(0o755)
    draft.chmod(0o755)
    try:
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft)
        if not target.is_dir():  # else another run was faster, with the same content
            raise
