"""A stack of the real engine, with a backend of its own, and no cluster."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.wiring import cache_dir
from lab.toolchain import Missing, Toolchain, ensure_tools, find_tools

PULUMI_TIMEOUT_S = 120

PROJECT = """name: stash
runtime: python
"""


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None: ...

    def update(self, text: str) -> None: ...


@dataclass
class Stack:
    """A project folder with its own backend, run by the real engine."""

    folder: Path
    environ: dict[str, str]

    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PULUMI_TIMEOUT_S,
            check=False,
        )

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--yes", "--skip-preview", *arguments)


def built_toolchain() -> Toolchain:
    """Give the tools, or skip the test where they are not built."""
    cache = cache_dir(os.environ)
    missing = [a.tool.name for a in find_tools(cache, "").values() if isinstance(a, Missing)]
    if missing:
        pytest.skip(f"not built yet: {', '.join(missing)}")
    return ensure_tools(cache_dir=cache, environ={"PATH": ""}, progress=Silent())


def new_stack(toolchain: Toolchain, folder: Path) -> Stack:
    """Make a stack below a folder."""
    project = folder / "project"
    project.mkdir()
    (folder / "state").mkdir()
    (project / "Pulumi.yaml").write_text(PROJECT)
    (project / "helper.py").write_text("")
    environ = os.environ | {
        "PATH": f"{toolchain.bin_dir}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    stack = Stack(folder=project, environ=environ)
    stack.program("")
    created = stack.run("stack", "init", "dev")
    assert created.returncode == 0, created.stderr
    return stack
