"""Make the flag table of one version of an engine: wheels in, a file out."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet.errors import ConfigError
from infra.flag_sources import dynamo, sglang, vllm
from infra.flag_sources.program import Program
from infra.flag_sources.table import FLOOR_FLAGS, flag_counts, table, write_table
from infra.flag_sources.wheel import Wheel, download, open_wheel


class Source(NamedTuple):
    """Where an engine's flags come from."""

    packages: Sequence[str]
    read: Callable[[Program], dict[str, object]]


SOURCES: Mapping[str, Source] = {
    "vllm": Source(vllm.PACKAGES, vllm.read_vllm),
    "sglang": Source(sglang.PACKAGES, sglang.read_sglang),
    "dynamo": Source(dynamo.PACKAGES, dynamo.read_dynamo),
}
_TARGET = re.compile(r"(\w+)==(\d+(?:\.\d+)*(?:(?:a|b|rc|\.post|\.dev)\d+)*)")


class Updated(NamedTuple):
    """A table that was written."""

    file: Path
    content: Mapping[str, object]


def update(target: str, given: Sequence[Path], folder: Path) -> Updated:
    """Write the table of `engine==version` into a folder.

    Args:
        target: which table, `vllm==0.31.0`.
        given: wheels that are on this machine; pip fetches the others.
        folder: where the table goes; made if it is missing.

    Raises:
        ConfigError: no such engine or version, or a wheel of something else.
        ToolError: pip failed.
        FleetError: the table cannot be written.
    """
    engine, version = _parse(target)
    source = SOURCES[engine]
    wheels = {wheel.name: wheel for wheel in map(open_wheel, given)}
    for wheel in wheels.values():
        _refuse_other(wheel, source.packages, version)
    with tempfile.TemporaryDirectory(prefix="k3fleet-wheels-") as temporary:
        for name in source.packages:
            if name not in wheels:
                place = Path(temporary) / name
                wheels[name] = open_wheel(download(f"{name}=={version}", place))
        ordered = [wheels[name] for name in source.packages]
        content = table(engine, version, ordered, source.read(Program(ordered)))
    _refuse_small(target, content)
    return Updated(write_table(content, folder), content)


def _parse(target: str) -> tuple[str, str]:
    found = _TARGET.fullmatch(target)
    if found is None:
        raise ConfigError(f"{target}: is no engine and version. Write it as vllm==0.31.0.")
    if found[1] not in SOURCES:
        known = ", ".join(SOURCES)
        raise ConfigError(f"{target}: {found[1]} is no engine with tables. Give one of {known}.")
    return found[1], found[2]


def _refuse_other(wheel: Wheel, packages: Sequence[str], version: str) -> None:
    if wheel.name not in packages or wheel.version != version:
        wanted = " or ".join(f"{name} {version}" for name in packages)
        raise ConfigError(
            f"{wheel.file}: is {wheel.name} {wheel.version}. Give the wheel of {wanted}."
        )


def _refuse_small(target: str, content: Mapping[str, object]) -> None:
    for component, count in flag_counts(content).items():
        if count < FLOOR_FLAGS:
            where = f"{target} {component}".strip()
            raise ConfigError(
                f"{where}: only {count} flags were found, so its source is laid out in a way that "
                "is not followed yet. Teach infra/flag_sources that version."
            )
