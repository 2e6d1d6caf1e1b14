"""Name every way k3fleet can refuse, with one exit code per class.

A message says *where: what. what to do.* The command line prints it without a
traceback; anything that is not a `FleetError` is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

EXIT_GO = 0
EXIT_NO_GO = 1
EXIT_INVALID = 2
EXIT_CONFIG = 3

MAX_SHOWN = 50  # a hostile file can hold a million faults; a person reads the first page


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Point at one fault in a file: where it is, what it is, what to do."""

    file: str
    line: int | None
    path: str
    what: str
    fix: str

    def __str__(self) -> str:
        """Format as `file:line: path: what. fix.` so that editors can jump there: one line."""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [where, self.path] if self.path else [where]
        text = f"{': '.join(parts)}: {sentence(self.what)} {sentence(self.fix)}"
        return text.replace("\n", "\\n")


def sentence(text: str) -> str:
    """End a text with a full stop, unless it ends like a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


class FleetError(Exception):
    """Root of all errors that are the user's or the world's, not ours."""

    exit_code: ClassVar[int] = 4


class ConfigError(FleetError):
    """A file or an option is wrong; `problems` holds every fault found."""

    exit_code: ClassVar[int] = EXIT_CONFIG

    def __init__(self, message: str, *, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        """Make one error out of many faults, so that one run shows them all."""
        found = tuple(problems)
        lines = [str(problem) for problem in found[:MAX_SHOWN]]
        if len(found) > MAX_SHOWN:
            lines.append(f"{found[0].file}: there are more problems. Correct these first.")
        return cls("\n".join(lines), problems=found)


class CapacityError(ConfigError):
    """What is asked does not fit into the hardware; `fields` of a release decide that."""

    def __init__(
        self, message: str, *, problems: tuple[Problem, ...] = (), fields: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, problems=problems)
        self.fields = fields


class ToolError(FleetError):
    """A tool is missing or its build failed."""

    exit_code: ClassVar[int] = 5


class LabError(FleetError):
    """The lab's control plane, a process, a port or a readiness wait failed."""

    exit_code: ClassVar[int] = 6


class ApplyError(FleetError):
    """Pulumi could not apply a program."""

    exit_code: ClassVar[int] = 7


class LoadError(FleetError):
    """The load generator failed."""

    exit_code: ClassVar[int] = 8


class BusyError(FleetError):
    """Another process does this work already."""

    exit_code: ClassVar[int] = 9


class StateError(FleetError):
    """The place of Pulumi's state cannot be reached, or is not fit to hold it."""

    exit_code: ClassVar[int] = 10


class ClusterError(FleetError):
    """A cluster does not answer, does not let us in, or is not the one that is meant."""

    exit_code: ClassVar[int] = 11


class RefusedError(FleetError):
    """A change would take away what must stay, and nobody has allowed it."""

    exit_code: ClassVar[int] = 12


class AccountError(FleetError):
    """There are no credentials, or they are not valid, not allowed to, or another account's."""

    exit_code: ClassVar[int] = 13


class CloudError(FleetError):
    """A cloud cannot be reached, or its answer is of no use."""

    exit_code: ClassVar[int] = 16


class PurchaseError(FleetError):
    """Nothing was bought: the offer is gone, or the cloud or the payment refused."""

    exit_code: ClassVar[int] = 17


class UnclearPurchaseError(FleetError):
    """Money may have been spent: the answer to a purchase never came."""

    exit_code: ClassVar[int] = 18


class StoreError(FleetError):
    """An object store cannot be reached, or refuses."""

    exit_code: ClassVar[int] = 14


class WeightsError(FleetError):
    """Weights are not what they should be: another model's, changed, or with unsafe names."""

    exit_code: ClassVar[int] = 15
