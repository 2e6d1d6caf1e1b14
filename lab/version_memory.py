"""Remember which version each program on PATH is: asking all of them takes seconds."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from lab.tool_table import Tool

# kubectl answers in 0.1 s, pulumi in 0.5 s; a machine that compiles is far slower.
PROBE_TIMEOUT_S = 20.0

Stamp = list[str | int | None]


@dataclass(slots=True)
class VersionMemory:
    """What each program on PATH answered, valid until its file changes.

    Answers are kept in `file`; `path` is the PATH the programs are run with.
    """

    file: Path
    path: str
    _known: dict[str, Stamp] | None = None
    _changed: bool = field(default=False)

    def version(self, tool: Tool, program: Path) -> str | None:
        """Return a program's version, asking it only when its file is new or has changed."""
        stat = program.stat()
        stamp: Stamp = [stat.st_mtime_ns, stat.st_size]
        known = self._load().get(str(program))
        if known and known[:2] == stamp:
            return str(known[2]) if known[2] else None
        version = self._ask(tool, program)
        self._load()[str(program)] = [*stamp, version]
        self._changed = True
        return version

    def save(self) -> None:
        """Write what was learnt. A cache that cannot be written only costs time."""
        if not self._changed:
            return
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            draft = self.file.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps(self._known))
            draft.replace(self.file)

    def _load(self) -> dict[str, Stamp]:
        if self._known is None:
            self._known = {}
            with contextlib.suppress(OSError, ValueError):
                self._known = dict(json.loads(self.file.read_text()))
        return self._known

    def _ask(self, tool: Tool, program: Path) -> str | None:
        command = [str(program), *tool.version_arguments]
        if tool.is_plugin:
            command = [sys.executable, "-P", "-m", "lab.plugin_version", str(program)]
        # pulumi would ask the network for a newer release, and make its home.
        environ = {"PATH": self.path, "HOME": os.devnull, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=PROBE_TIMEOUT_S,
                check=False,
                env=environ,
            )
            return tool.version_in(answer.stdout)
        return None
