"""Run a policy pack for the language host: the engine asks for it by `RunPlugin`.

A pack says its port on stdout and then serves until it is ended. What it prints
is passed on as it comes, and it goes when the engine hangs up.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pulumi.runtime.proto.language_pb2 import RunPluginRequest, RunPluginResponse

POLICY_KIND = "analyzer"
_STOP_GRACE_S = 3.0


@dataclass(slots=True)
class Plugins:
    """The plugins under way, so that a signal or a Cancel can end them."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def run(
        self, python: Path, request: RunPluginRequest, context: Any
    ) -> Iterator[RunPluginResponse]:
        """Run a pack until it ends or the engine hangs up; give what it prints."""
        argv = [str(python), "-u", "-m", "pulumi.policy", *request.args]
        child = subprocess.Popen(
            [*argv, request.info.program_directory],
            cwd=request.pwd or request.info.program_directory,
            env=dict(item.split("=", 1) for item in request.env) or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with self._lock:
            self._running.add(child)
            if self._ended:
                child.terminate()
        context.add_callback(lambda: self._stop(child))
        try:
            yield from _printed(child)
            yield RunPluginResponse(exitcode=child.wait())
        finally:
            self._stop(child)

    def end(self) -> None:
        """End all plugins, and start no more."""
        with self._lock:
            self._ended = True
            children = list(self._running)
        for child in children:
            self._stop(child)

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        try:
            child.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        with self._lock:
            self._running.discard(child)


def _printed(child: subprocess.Popen[bytes]) -> Iterator[RunPluginResponse]:
    """Give both streams in the order in which they come, until both are closed."""
    lines: queue.SimpleQueue[RunPluginResponse | None] = queue.SimpleQueue()

    def read(stream: IO[bytes], wrap: Callable[[bytes], RunPluginResponse]) -> None:
        with stream:
            for line in iter(stream.readline, b""):
                lines.put(wrap(line))
        lines.put(None)

    for stream, wrap in (
        (child.stdout, lambda line: RunPluginResponse(stdout=line)),
        (child.stderr, lambda line: RunPluginResponse(stderr=line)),
    ):
        assert stream is not None  # noqa: S101 - it is a pipe
        threading.Thread(target=read, args=(stream, wrap), daemon=True).start()
    open_streams = 2
    while open_streams:
        line = lines.get()
        if line is None:
            open_streams -= 1
        else:
            yield line
