"""Find the file that a name stands for: a preset that comes with k3fleet, or a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fleet.schema import found_text, suggestion

_HERE = Path(__file__).parent
PRESET_FOLDERS: Mapping[str, Path] = {
    "model": _HERE / "models",
    "hardware": _HERE / "hardware",
    "release": _HERE / "releases",
}

MAX_NAME_CHARS = 1024  # a longer one is no path, and would flood the terminal
FILE_ENDINGS = (".yaml", ".yml")


class NotFound(NamedTuple):
    """Why a name stands for no file, and what to do."""

    what: str
    fix: str


def preset_names(kind: str) -> list[str]:
    """List the presets of a kind: model, hardware or release."""
    return sorted(file.stem for file in PRESET_FOLDERS[kind].glob("*.yaml"))


def named_file(kind: str, name: str, folder: Path) -> Path | NotFound:
    """Give the file of a preset, or of a path relative to `folder`; it may not exist."""
    if len(name) > MAX_NAME_CHARS:
        return NotFound(f"{found_text(name)} is too long", "Shorten it")
    if "/" in name or name.endswith(FILE_ENDINGS):
        return folder / name
    presets = preset_names(kind)
    if name in presets:
        return PRESET_FOLDERS[kind] / f"{name}.yaml"
    fix = f"{suggestion(name, presets)}; or give a path that ends in .yaml"
    return NotFound(f"unknown {kind} {found_text(name)}", fix)
