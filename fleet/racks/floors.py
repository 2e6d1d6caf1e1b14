"""Read the oldest versions with which a rack may serve. The numbers are in `floors.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fleet.errors import ConfigError
from fleet.schema import FileModel, Text, validate
from fleet.yaml_document import read_document

OWN = Path(__file__).with_name("floors.yaml")


class Floor(FileModel):
    """The oldest version that will do, and who says so."""

    at_least: Text
    source: Text


class Floors(FileModel):
    """The whole file."""

    api_version: Literal["k3fleet/v1"] = Field(alias="apiVersion", description="k3fleet/v1")
    driver: Floor = Field(description="of NVIDIA's driver")
    kernel: Floor = Field(description="of Linux")
    dra_driver: Floor = Field(description="of NVIDIA's DRA driver")


def load_floors(path: Path | None = None) -> Floors:
    """Read a file of floors, or our own; raise ConfigError with every problem."""
    floors, problems = validate(Floors, read_document(path or OWN))
    if floors is None:
        raise ConfigError.of(problems)
    return floors
