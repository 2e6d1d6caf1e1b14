"""Read the file with which a user changes what a load test does beyond the options of a command.

It has the nested parts of the settings, each with only the fields that differ. Which load is sent,
and where to, the command says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.errors import ConfigError
from fleet.schema import FileModel, validate
from fleet.yaml_document import read_document
from loadtest.cache.oracle import OracleRules
from loadtest.client.client_options import ClientOptions
from loadtest.play.search import SearchOptions
from loadtest.prompt.session_options import SessionOptions
from loadtest.replay.options import ReplayOptions
from loadtest.results.result_options import ResultOptions
from loadtest.traffic.harness import HarnessOptions

Parts = dict[str, dict[str, Any]]
"""Fields that differ, by the part of the settings that they are in."""


class _SettingsFile(FileModel):
    harness: HarnessOptions = HarnessOptions()
    replay: ReplayOptions = ReplayOptions()
    session: SessionOptions = SessionOptions()
    client: ClientOptions = ClientOptions()
    oracle: OracleRules = OracleRules()
    results: ResultOptions = ResultOptions()
    search: SearchOptions | None = None


def read_parts(path: Path) -> Parts:
    """Read YAML or JSON; raises ConfigError with every fault of it."""
    file, problems = validate(_SettingsFile, read_document(path))
    if file is None:
        raise ConfigError.of(problems)
    parts: Parts = file.model_dump(exclude_unset=True, exclude_none=True)
    return parts


def overlaid(fields: dict[str, Any], parts: Parts) -> dict[str, Any]:
    """Lay parts over settings: what they do not name stays."""
    return fields | {name: {**(fields.get(name) or {}), **part} for name, part in parts.items()}


def load_of(parts: Parts) -> str | None:
    """Name what in the parts is a load of its own, instead of users and the like."""
    if "search" in parts:
        return "search"
    return "replay.arrivals" if parts.get("replay", {}).get("arrivals") == "recorded" else None
