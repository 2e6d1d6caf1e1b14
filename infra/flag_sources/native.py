"""Ask Dynamo's native library for its parser names, in a child process.

The names are Rust code. The library needs only libc and Python, and it runs with
an empty environment, in an empty folder, under a time limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.flag_sources.program import Program

ASK_TIMEOUT_S = 120.0

_LIBRARY = "dynamo/_core.abi3.so"
_QUESTION = """
import json, sys
sys.path.insert(0, sys.argv[1])
import _core
print(json.dumps({
    "tool_call_parsers": sorted(_core.get_tool_parser_names()),
    "reasoning_parsers": sorted(_core.get_reasoning_parser_names()),
}))
"""


def parser_names(program: Program) -> dict[str, list[str]]:
    """Map kinds of parsers to their names; empty where the library does not run here."""
    if _LIBRARY not in program.members(".so"):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / Path(_LIBRARY).name).write_bytes(program.library(_LIBRARY))
        return _ask(folder)


def _ask(folder: str) -> dict[str, list[str]]:
    command = [sys.executable, "-I", "-c", _QUESTION, folder]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_TIMEOUT_S, cwd=folder, env={},
            check=True,
        )  # fmt: skip
        answer = json.loads(run.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return {}  # built for another machine, or without these functions
    return {kind: [str(name) for name in names] for kind, names in answer.items()}
