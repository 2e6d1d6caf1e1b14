"""Write a flag table as a file: the same wheel gives the same bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.errors import FleetError
from infra.flag_sources.wheel import Wheel

FLOOR_FLAGS = 20  # fewer means that the source is laid out in a way we do not follow


def table(
    engine: str, version: str, wheels: Sequence[Wheel], found: Mapping[str, object]
) -> dict[str, object]:
    """Put the parts of a table together."""
    sources = [{"wheel": wheel.file.name, "sha256": wheel.sha256} for wheel in wheels]
    return {"engine": engine, "version": version, "sources": sources, **found}


def flag_counts(content: Mapping[str, object]) -> dict[str, int]:
    """Count the flags of each component; an engine without components is one, without name."""
    match content:
        case {"components": dict() as components}:
            return {name: len(component["flags"]) for name, component in components.items()}
        case {"flags": list() as flags}:
            return {"": len(flags)}
        case _:
            return {}


def write_table(content: Mapping[str, object], folder: Path) -> Path:
    """Write `<engine>-<version>.json.gz`. Raises FleetError if the folder cannot be written."""
    file = folder / f"{content['engine']}-{content['version']}.json.gz"
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode(), mtime=0))
    except OSError as error:
        raise FleetError(
            f"{folder}: cannot be written ({error.strerror}). Give another folder with --out."
        ) from error
    return file
