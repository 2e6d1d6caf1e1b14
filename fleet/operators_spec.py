"""Say which third-party operators k3fleet installs, and in which regions."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

from fleet.schema import FileModel, Text, found_text, refuse

_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no exact version of a chart", "Write all of it, as 0.10.0"
        )
    return text


class OperatorSpec(FileModel):
    """One operator, which is installed because it is named."""

    version: Annotated[Text, AfterValidator(_version)] | None = None  # None: k3fleet's own choice


class OperatorsSpec(FileModel):
    """Operators of a region's platform. None of them: somebody else installs it."""

    # made: where k3fleet makes the cluster. all: also in clusters that are there already.
    clusters: Literal["made", "all"] = "made"
    gpu_operator: OperatorSpec | None = None
    dra_driver: OperatorSpec | None = None
    workloads: OperatorSpec | None = None  # LeaderWorkerSet with backend lws, Dynamo's with dgd
