"""Say what a cloud has to answer so that `k3fleet capacity status` can watch its racks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Protocol

from fleet.capacity.blocks import Block, Claim
from fleet.errors import CloudError, FleetError, ToolError

_SHOWN_CHARS = 300


class CapacityReader(Protocol):
    """One cloud's bought capacity; it only asks."""

    def claims(self) -> list[Claim]:
        """List what the fleet file says of the racks that are in this cloud."""
        ...

    def blocks(self) -> list[Block]:
        """Read what the cloud says of them; raises CloudError when it cannot be asked."""
        ...


def sdk(module: str, package: str, needed_for: str) -> ModuleType:
    """Import a cloud's SDK; raise ToolError that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ToolError(
            f"{needed_for}: the package {package} is not installed. pip install {package}"
        ) from error


@contextmanager
def asking(where: str) -> Iterator[None]:
    """Ask an SDK whose errors have no class in common; raise CloudError with what it says."""
    try:
        yield
    except FleetError:
        raise
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:_SHOWN_CHARS].rstrip(".")
        raise CloudError(
            f"{where}: {type(error).__name__}: {said}. Check the login, the permission and the id."
        ) from error
