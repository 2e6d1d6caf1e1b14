"""Read a stack's configuration from its file, as a Pulumi program would be given it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import ConfigError
from infra.settings import OPTION_KEYS, OTHER_KEYS, REQUIRED_KEYS, newer_config

PROJECT = "k3fleet-serving"


@dataclass(frozen=True, slots=True)
class FileConfig:
    """A stack configuration file, read as a Pulumi program would be given it."""

    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, project: str = PROJECT) -> FileConfig:
        """Read a project's part of a file; raise ConfigError for what is none."""
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
            found = {key.removeprefix(f"{project}:"): value for key, value in config.items()}
        except (
            *(OSError, yaml.YAMLError, ValueError, RecursionError),
            *(KeyError, TypeError, AttributeError),
        ) as error:
            raise ConfigError(
                f"{path}: cannot be read as a stack configuration. "
                "Restore it, or bring the region up anew."
            ) from error
        known = (*REQUIRED_KEYS, *OTHER_KEYS, *OPTION_KEYS)
        if unknown := [key for key in found if ":" not in key and key not in known]:
            raise newer_config(f"{path}: {unknown[0]} is not known here")
        return cls(found)

    def get(self, key: str) -> str | None:
        """Give a text."""
        value = self.values.get(key)
        return None if value is None else str(value)

    def get_bool(self, key: str) -> bool | None:
        """Give a flag; Pulumi writes it as a text when it writes the file anew."""
        value = self.values.get(key)
        return None if value is None else str(value).lower() == "true"

    def get_int(self, key: str) -> int | None:
        """Give a number."""
        value = self.values.get(key)
        try:
            return None if value is None else int(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise ConfigError(
                f"stack configuration: {key}: expected a whole number. Correct it with "
                f"`pulumi config set {key} N`."
            ) from error

    def get_object(self, key: str) -> object:
        """Give a list or a mapping."""
        return self.values.get(key)
