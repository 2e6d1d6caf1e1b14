"""Run the Go compiler for the lab's tools: find it, check it, explain its failures.

A build takes minutes and gigabytes, so everything that can be known before it
starts (Go's age, free disk) is checked first, and the rest is told in words
that say what to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import ToolError
from lab.tool_table import GO_VERSION, GO_WITH_TOOLCHAINS

TICK_S = 1.0
# `go` passes the signal on to its compilers and removes its files in well under a second.
STOP_GRACE_S = 5.0
QUERY_TIMEOUT_S = 60.0
SHOWN_LINES = 20
GO_TEXT = ".".join(map(str, GO_VERSION))
GET_GO = "Install it from your distribution or from the Go project's download page"

NETWORK_ERRORS = (
    r"GOPROXY=off|dial tcp|no such host|i/o timeout|TLS handshake|proxyconnect"
    r"|connection re(?:fused|set)|server misbehaving|unexpected EOF"
    r"|40[0-9] [A-Z][a-z]+|410 Gone|50[0-9] [A-Z][a-z]+"
)
# What go prints, and what it means. The first match wins.
_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"no space left on device|disk quota exceeded",
        "the disk is full. Free space on the file system of the cache and of `go env GOCACHE`",
    ),
    (
        r"checksum mismatch|SECURITY ERROR",
        "a downloaded module is not the one go.sum names. Do not use it; check GOPROXY",
    ),
    (
        r"requires go >= |toolchain not available",
        f"go is too old. {GET_GO}: {GO_TEXT} or newer",
    ),
    (NETWORK_ERRORS, "modules could not be fetched. Check the network and `go env GOPROXY`"),
    (
        r"signal: killed|cannot allocate memory|out of memory",
        "the compiler was killed, most likely for lack of memory. Free memory",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """A Go compiler that can build the tools."""

    program: Path
    version: str
    build_cache: Path
    module_cache: Path
    environ: Mapping[str, str]


def parse_go_version(text: str) -> tuple[int, int, int] | None:
    """Read `go1.26.8` as (1, 26, 8); None for a development build."""
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def find_go(environ: Mapping[str, str]) -> Go:
    """Find a Go that is new enough, or that may fetch one that is; else raise ToolError."""
    program = shutil.which("go", path=environ.get("PATH", ""))
    if program is None:
        raise ToolError(
            f"tools: go is not on PATH, and tools have to be built. {GET_GO} "
            f"({GO_TEXT} or newer), then try again."
        )
    build_environ = _build_environ(environ)
    query = [program, "env", "GOVERSION", "GOTOOLCHAIN", "GOCACHE", "GOMODCACHE"]
    lines = _ask(query, environ=build_environ, folder=None).splitlines()
    version, toolchain, build_cache, module_cache = (*lines, "", "", "", "")[:4]
    _check_version(program, version, toolchain)
    return Go(
        program=Path(program),
        version=version,
        build_cache=Path(build_cache),
        module_cache=Path(module_cache),
        environ=build_environ,
    )


def _build_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep the user's proxies and caches, but nothing that would change what is built."""
    ours = {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
        "GO111MODULE": "on",
    }
    unwanted = ("GOOS", "GOARCH", "GOEXPERIMENT")
    return {key: value for key, value in environ.items() if key not in unwanted} | ours


def _check_version(program: str, text: str, toolchain: str) -> None:
    version = parse_go_version(text)
    if version is None or version >= GO_VERSION:
        return
    if version >= GO_WITH_TOOLCHAINS and not toolchain.startswith("local"):
        return
    fix = f"{GET_GO}: {GO_TEXT} or newer"
    if version >= GO_WITH_TOOLCHAINS:
        fix += ", or set GOTOOLCHAIN=auto and this one fetches it by itself"
    raise ToolError(f"{program}: {text} is too old, {GO_TEXT} is needed. {fix}.")


def module_folder(go: Go, *, module: str, source: Path) -> Path:
    """Return where Go keeps the files of a module that `source`'s go.mod names."""
    command = [str(go.program), "mod", "download", "-json", module]
    answer: dict[str, Any] = json.loads(_ask(command, environ=go.environ, folder=source))
    return Path(answer["Dir"])


def _ask(command: Sequence[str], *, environ: Mapping[str, str], folder: Path | None) -> str:
    """Run a short go command and return what it prints."""
    try:
        answer = subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT_S * 10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(
            f"{command[0]}: cannot be run ({error}). Repair the Go installation."
        ) from error
    if answer.returncode != 0:
        raise ToolError(_explain(" ".join(command[:3]), answer.stdout + answer.stderr, log=None))
    return answer.stdout


def run_build(
    go: Go,
    arguments: Sequence[str],
    *,
    folder: Path,
    log: Path,
    tick: Callable[[], None],
) -> None:
    """Run `go build` in its own process group, calling `tick` about once a second.

    Whatever ends the wait, an interrupt too, the whole group is ended with it.
    Go's caches keep what was compiled by then.
    """
    temporary = folder / ".go-tmp"
    temporary.mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(go.program), "build", *arguments],
            cwd=folder,
            env={**go.environ, "GOTMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while _still_runs(process):
                tick()
        finally:
            _end_group(process)
    if process.returncode != 0:
        raise ToolError(_explain(folder.name, log.read_text(errors="replace"), log=log))


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(TICK_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process group that was started with its own session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _explain(what: str, output: str, *, log: Path | None) -> str:
    """Say why go failed and what to do, with the end of its output."""
    lines = [line for line in output.splitlines() if not _is_package_name(line)]
    cause = next((text for pattern, text in _CAUSES if re.search(pattern, output)), None)
    reason = cause or "the build failed. Read the lines below"
    where = f"; all of it is in {log}" if log else ""
    shown = "\n".join(f"    {line}" for line in lines[-SHOWN_LINES:])
    return f"{what}: {reason}{where}, then try again: what is compiled is kept.\n{shown}"


def _is_package_name(line: str) -> bool:
    """Tell the names that `go build -v` prints from messages."""
    return " " not in line and ":" not in line
