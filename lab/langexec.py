"""Run one Pulumi program for the language host: the request is a line of JSON on stdin.

Stands alone: it imports nothing of ours, because the program may have its own
environment, in which only Pulumi's SDK is installed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import runpy
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime

# What the official host's child uses to say: the user has been told, add nothing.
TOLD_USER = 32
# Each registration waits in a thread of its own.
THREADS_PER_PARALLEL = 4
RUNPY = runpy.run_path.__code__.co_filename


def main() -> int:
    """Read the request, run its program, return the exit code."""
    # The engine interrupts its whole group at once; the host decides, and ends us by SIGTERM.
    # A handler and not SIG_IGN, which the program's own children would inherit.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    request = json.loads(sys.stdin.buffer.readline())
    _end_with_host()
    _configure(request)
    try:
        _run(request)
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return TOLD_USER
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        pulumi.log.error(f"Program failed with an unhandled exception:\n{_traceback()}")
        return TOLD_USER
    return 0


def _end_with_host() -> None:
    """End when the host does, even by SIGKILL: the pipe it holds then closes."""
    pipe = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def watch() -> None:
        os.read(pipe, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _configure(request: dict[str, Any]) -> None:
    pulumi.runtime.set_all_config(request["config"], request["secret_keys"])
    pulumi.runtime.configure(pulumi.runtime.Settings(**request["settings"]))
    os.chdir(request["folder"])
    program = Path(request["program"])
    sys.argv = [str(program), *request["arguments"]]
    if program.is_file():  # runpy does this by itself for a folder only
        sys.path.insert(0, str(program.parent))
    # The SDK leaves failed tasks behind when a program fails; their news is ours, below.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


def _run(request: dict[str, Any]) -> None:
    threads = max(request["settings"]["parallel"], 1) * THREADS_PER_PARALLEL

    def program() -> None:
        runpy.run_path(request["program"], run_name="__main__")

    with ThreadPoolExecutor(max_workers=threads) as pool, asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(pool)
        runner.run(pulumi.runtime.run_in_stack(program))


def _traceback() -> str:
    """Format the current exception, from the program's own first line on if it got there."""
    kind, error, first = sys.exc_info()
    frames = first
    while frames:
        if frames.tb_frame.f_code.co_filename == RUNPY:
            first = frames.tb_next
        frames = frames.tb_next
    return "".join(traceback.format_exception(kind, error, first))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
