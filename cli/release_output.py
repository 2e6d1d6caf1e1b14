"""Write releases for people, programs and the disk."""

from __future__ import annotations

import shlex
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.model import Model
from fleet.release import Release, release_for, release_id
from fleet.release_text import release_data, release_yaml
from infra.engine import engine_roles


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLine:
    """The command of one kind of engine process."""

    role: str
    process: str  # which of a replica's: its leader, or each other one
    command: tuple[str, ...]


def engine_lines(model: Model, release: Release) -> list[EngineLine]:
    """Give the commands of a release: per job of a replica its leader's and its workers'."""
    return [
        EngineLine(
            role=role,
            process="leader" if process.serves else "worker",
            command=(*process.command, *process.args),
        )
        for role in dict.fromkeys(release.roles)
        for process in engine_roles(model, release_for(release, role), role)
    ]


def release_row(release: Release, source: str) -> dict[str, str]:
    """Give what tells one release from another in a list."""
    speculation = release.speculation
    return {
        "id": release_id(release),
        "engine": f"{release.engine.kind} {release.engine.version}",
        "replicas": _mode(release),
        "speculation": f"{speculation.method} {speculation.tokens}" if speculation else "-",
        "from": source,
    }


def release_json(release: Release, lines: list[EngineLine]) -> dict[str, object]:
    """Give a release with its commands as plain data."""
    return {
        "id": release_id(release),
        "release": release_data(release),
        "roles": list(release.roles),
        "commands": [asdict(line) for line in lines],
    }


def show_text(release: Release, lines: list[EngineLine]) -> str:
    """Write a release as YAML that can be read back; commands are comments."""
    text = f"# {release_id(release)}\n{release_yaml(release)}\n# replicas: {_mode(release)}\n"
    for line in lines:
        text += f"# {line.role}, {line.process}:\n#   {_one_line(line.command)}\n"
    return text


def write_frozen(path: Path, text: str) -> None:
    """Write a file whole or not at all, and make its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as scratch:
            made = Path(scratch, path.name)
            made.write_text(text, encoding="utf-8")
            made.replace(path)
    except OSError as error:
        raise FleetError(
            f"{path}: cannot write: {error.strerror or error}. "
            "Free space, or give a folder that you may write to."
        ) from error


def _mode(release: Release) -> str:
    counts = Counter(release.roles)
    if len(counts) == 1:
        return release.roles[0]
    return " + ".join(f"{count} {role}" for role, count in counts.items())


def _one_line(command: tuple[str, ...]) -> str:
    """Write a command as a shell reads it, on one line whatever is in it."""
    line = shlex.join(command)
    return line if line.isprintable() else repr(line)
