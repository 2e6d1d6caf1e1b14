"""Build the missing tools from the pinned Go modules, once, into the user's cache.

A build is a folder whose name holds the hash of everything that went into it,
and which appears by a rename: it is there whole or not at all. Nothing is
written into the source tree, which may be read-only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol, TextIO

from fleet.errors import ToolError
from fleet.units import format_duration
from lab.go_compiler import Go, find_go, module_folder, run_build
from lab.tool_table import GIB, EmbeddedJson, GoModule

SOURCES = Path(__file__).with_name("tools")
SCRATCH_PREFIX = ".build-"
LOCK_POLL_S = 0.5
# Downloading all four modules took 1.8 minutes.
DOWNLOAD_S_PER_MODULE = 30
# A binary, its link step's temporary files and the scratch folder.
OUTPUT_BYTES = GIB


class Progress(Protocol):
    """What is told of a long job while it runs."""

    def step(self, name: str) -> None:
        """Begin a step; the one before it is over."""

    def update(self, text: str) -> None:
        """Say how the current step stands. Called often: once a second and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where builds go and what they are measured by."""

    folder: Path
    progress: Progress
    clock: Callable[[], float] = time.monotonic
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free


def built_folder(folder: Path, module: GoModule) -> Path:
    """Name the folder of a module's build, whether it is there or not.

    Go's own version is not part of the hash: a newer Go gives the same tool, and
    rebuilding for half an hour after every Go update helps nobody. It is written
    into the folder instead.
    """
    digest = hashlib.sha256()
    for file in _source_files(module):
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    recipe = (module.package, module.ldflags, module.embedded, sys.platform, platform.machine())
    digest.update(repr(recipe).encode())
    return folder / f"{module.name}-{digest.hexdigest()[:16]}"


def _source_files(module: GoModule) -> list[Path]:
    folder = SOURCES / module.name
    files = [folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))]
    absent = [file for file in files if not file.is_file()]
    if absent:
        raise ToolError(f"{absent[0]}: not there. Install k3fleet again: its files are incomplete.")
    return files


def build_modules(
    modules: Sequence[GoModule], *, workshop: Workshop, environ: Mapping[str, str]
) -> None:
    """Build what is not built yet, one module after the other; raise ToolError."""
    with _writable(workshop.folder), _termination_unwinds(), _alone(workshop):
        _sweep(workshop.folder)
        todo = [module for module in modules if not built_folder(workshop.folder, module).is_dir()]
        if not todo:
            return
        go = find_go(environ)
        problem = room_problem(todo, go=go, workshop=workshop)
        if problem:
            raise ToolError(problem)
        minutes = expected_minutes(todo, cores=_cores())
        workshop.progress.step(announcement(todo, minutes=minutes))
        for number, module in enumerate(todo, start=1):
            of_all = f"{number} of {len(todo)}, about {minutes} min in all, once"
            workshop.progress.step(f"build {module.name} ({of_all})")
            _build(module, go=go, workshop=workshop)


def expected_minutes(modules: Sequence[GoModule], *, cores: int) -> int:
    """Estimate how long a first build takes on so many free cores."""
    seconds = sum(module.cpu_s / cores + DOWNLOAD_S_PER_MODULE for module in modules)
    return math.ceil(seconds / 60)


def announcement(modules: Sequence[GoModule], *, minutes: int) -> str:
    """Say what a first build costs, before it starts."""
    disk_gib = sum(needed_bytes(module) for module in modules) / GIB
    memory_gib = max(module.memory_bytes for module in modules) / GIB
    names = ", ".join(module.name for module in modules)
    return (
        f"first run: {names} will be built with Go. This takes tens of minutes (about {minutes} "
        f"here), {disk_gib:.0f} GiB of disk and {memory_gib:.1f} GiB of memory. It is done once; "
        "when interrupted, what is done is kept"
    )


def needed_bytes(module: GoModule) -> int:
    """Add up what a first build of one module writes to disk."""
    return module.build_cache_bytes + module.download_bytes + OUTPUT_BYTES


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def room_problem(modules: Sequence[GoModule], *, go: Go, workshop: Workshop) -> str | None:
    """Say which disk a build would fill, if any; Go's two caches may be on other ones."""
    wanted: dict[int, tuple[Path, int]] = {}
    for path, size in (
        (workshop.folder, OUTPUT_BYTES * len(modules)),
        (go.build_cache, sum(module.build_cache_bytes for module in modules)),
        (go.module_cache, sum(module.download_bytes for module in modules)),
    ):
        there = existing_parent(path)
        device = there.stat().st_dev
        first, so_far = wanted.get(device, (there, 0))
        wanted[device] = (first, so_far + size)
    for path, size in wanted.values():
        free = workshop.free_bytes(path)
        if free < size:
            return (
                f"{path}: building {', '.join(module.name for module in modules)} needs "
                f"{size / GIB:.1f} GiB, {free / GIB:.1f} GiB are free. Free space there, or point "
                "XDG_CACHE_HOME, GOCACHE and GOMODCACHE to a larger disk."
            )
    return None


def existing_parent(path: Path) -> Path:
    """Return the nearest folder that exists: caches are made on first use."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def _build(module: GoModule, *, go: Go, workshop: Workshop) -> None:
    """Build one module in a scratch folder and move the result into place."""
    target = built_folder(workshop.folder, module)
    log = workshop.folder / "logs" / f"{module.name}.log"
    log.parent.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=workshop.folder))
    started = workshop.clock()
    try:
        source, out = scratch / module.name, scratch / "out"
        source.mkdir()
        out.mkdir()
        for file in _source_files(module):
            shutil.copy(file, source)
        for embedded in module.embedded:
            _write_embedded(embedded, go=go, source=source)
        run_build(
            go,
            _build_arguments(module, out=out / module.name),
            folder=source,
            log=log,
            tick=lambda: workshop.progress.update(_standing(log)),
        )
        _finish(module, out=out, go=go)
        out.rename(target)
        _fsync(workshop.folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    size_mb = (target / module.name).stat().st_size / 1e6
    took = format_duration(round(workshop.clock() - started))
    workshop.progress.step(f"built {module.name} in {took}, {size_mb:.0f} MB")


def _build_arguments(module: GoModule, *, out: Path) -> list[str]:
    parallel = ["-p", str(_cores())]
    return [
        *parallel,
        "-v",
        "-trimpath",
        "-ldflags",
        module.ldflags,
        "-o",
        str(out),
        module.package,
    ]


def _standing(log: Path) -> str:
    """Describe a build under way; `go build -v` writes a line per module and per package."""
    lines = log.read_text(errors="replace").splitlines()
    fetched = sum(line.startswith("go: downloading") for line in lines)
    compiled = len(lines) - fetched
    return f"{compiled} packages compiled" if compiled else f"{fetched} modules fetched"


def _write_embedded(embedded: EmbeddedJson, *, go: Go, source: Path) -> None:
    """Write a file that the source embeds, from the one the module carries: smaller, dated."""
    folder = module_folder(go, module=embedded.module, source=source)
    content = json.loads((folder / embedded.source).read_text())
    if embedded.set_version:
        content["version"] = embedded.set_version
    (source / embedded.name).write_text(json.dumps(content, separators=(",", ":")))


def _finish(module: GoModule, *, out: Path, go: Go) -> None:
    """Add the names the binary is called by, note how it was made, and sync to disk."""
    for program in module.programs:
        if program != module.name:
            (out / program).symlink_to(module.name)
    note = {"go": go.version, "package": module.package, "ldflags": module.ldflags}
    (out / "built.json").write_text(json.dumps(note, indent=1) + "\n")
    for file in (out / module.name, out / "built.json", out):
        _fsync(file)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Make the folder; turn what the file system refuses into a message."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ToolError(
            f"{error.filename or folder}: {error.strerror or error}. The tools' cache must be "
            "writable and have room; XDG_CACHE_HOME moves it."
        ) from error


@contextlib.contextmanager
def _termination_unwinds() -> Iterator[None]:
    """Let SIGTERM end a build as Ctrl-C does, unless the caller has its own way."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not ours:
        yield
        return
    signal.signal(signal.SIGTERM, _exit_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit_terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _alone(workshop: Workshop) -> Iterator[None]:
    """Hold the build lock. The kernel drops it when its holder dies, however it dies."""
    with (workshop.folder / "lock").open("w") as lock:
        while not _try_lock(lock):
            workshop.progress.update("another k3fleet is building the tools: waiting for it")
            time.sleep(LOCK_POLL_S)
        yield


def _try_lock(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove scratch folders of builds that were killed. Only the lock's holder may."""
    for scratch in folder.glob(f"{SCRATCH_PREFIX}*"):
        shutil.rmtree(scratch, ignore_errors=True)
