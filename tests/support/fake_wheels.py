"""Hand-written wheels: a few source files in a zip, as pip would give them."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from infra.flag_sources.evaluator import Evaluator, Reading
from infra.flag_sources.flags import flag_entries
from infra.flag_sources.program import Program
from infra.flag_sources.values import Parser
from infra.flag_sources.wheel import open_wheel


def fake_wheel(folder: Path, name: str, version: str, members: Mapping[str, str | bytes]) -> Path:
    """Write a wheel with some members; texts are dedented."""
    file = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, content in members.items():
            archive.writestr(path, dedent(content) if isinstance(content, str) else content)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n"
        notes = f"{name.replace('-', '_')}-{version}.dist-info"
        archive.writestr(f"{notes}/METADATA", metadata)
        archive.writestr(f"{notes}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
    return file


def entries_of(folder: Path, main: str, **modules: str) -> dict[str, Any]:
    """Follow `fill(parser)` of module `main` beside other modules; give entries by first flag."""
    members = {f"{name}.py": text for name, text in (modules | {"main": main}).items()}
    program = Program([open_wheel(fake_wheel(folder, "engine", "1.0", members))])
    ev = Evaluator(reading=Reading(program=program), module=program.need("main"))
    ev.names["parser"] = Parser()
    ev.value(ast.parse("fill(parser)", mode="eval").body)
    return by_flag(flag_entries(ev, ev.declared))


def by_flag(entries: Any) -> dict[str, Any]:
    """Map entries by their first spelling."""
    return {entry["flags"][0]: entry for entry in entries}
