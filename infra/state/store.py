"""Define what k3fleet has to know of a place where Pulumi keeps its state.

Pulumi reads and writes the state itself. We look at it beside Pulumi for three
things that its command line cannot be asked: whether a stack exists, who holds
its lock, and to take away a lock whose holder is dead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from fleet.errors import ApplyError
from fleet.units import format_duration
from infra.redaction import Redactor

_LAST_PID = 2**31 - 1  # pid_t of every system that Pulumi runs on


@dataclass(frozen=True, slots=True, kw_only=True)
class StackName:
    """A stack as the state names it."""

    project: str
    stack: str

    @property
    def locks(self) -> str:
        """Folder of the locks, inside the state. Source: Pulumi's diy backend, lock.go."""
        return f".pulumi/locks/organization/{self.project}/{self.stack}"

    @property
    def checkpoint(self) -> str:
        """Name of the stack's state, inside the whole; `.gz` behind it where that is asked for."""
        return f".pulumi/stacks/{self.project}/{self.stack}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One lock and who holds it."""

    place: str  # file or object
    pid: int
    host: str
    user: str
    since: str

    def age_s(self, now: datetime) -> float | None:
        """Say for how long it is held; None where its time cannot be read."""
        try:
            since = datetime.fromisoformat(self.since)
        except ValueError:
            return None
        aware = since if since.tzinfo else since.replace(tzinfo=UTC)
        return max(0.0, (now - aware).total_seconds())

    def told(self, now: datetime) -> str:
        """Name holder and age: `process 12@host of me, for 4m 2s`."""
        age_s = self.age_s(now)
        age = "of unknown age" if age_s is None else f"for {format_duration(round(age_s))}"
        # Whoever can write to the state has chosen these words.
        return Redactor().text(f"process {self.pid}@{self.host} of {self.user}, {age}")

    @classmethod
    def read(cls, place: str, text: str) -> Lock:
        """Read a lock as Pulumi wrote it; raise ApplyError for what is none."""
        try:
            content = json.loads(text)
            pid = _process(content["pid"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ApplyError(
                f"{place}: this lock cannot be read. "
                "Make sure that no update runs, remove it, and run again."
            ) from error
        return cls(
            place=place,
            pid=pid,
            host=str(content.get("hostname", "?")),
            user=str(content.get("username", "?")),
            since=str(content.get("timestamp", "?")),
        )


def _process(number: object) -> int:
    if type(number) is not int or not 0 < number <= _LAST_PID:
        raise ValueError("no process has such a number")
    return number


class StateStore(Protocol):
    """A place where Pulumi keeps its state."""

    @property
    def url(self) -> str:
        """Address, as Pulumi is given it."""
        ...

    @property
    def secrets_provider(self) -> str | None:
        """Address of the key that encrypts secrets in the state; None: a passphrase."""
        ...

    def variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Give what Pulumi needs in its environment to open the state."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """Give what opens the state, so that it can be kept out of every text."""
        ...

    def prepare(self) -> None:
        """Make what has to be there before Pulumi is started."""
        ...

    def exists(self, name: StackName) -> bool | None:
        """Say whether a stack was created; None where this cannot be seen from here."""
        ...

    def locks(self, name: StackName) -> list[Lock]:
        """Read the locks of a stack."""
        ...

    def remove(self, lock: Lock) -> None:
        """Remove a lock; one that is gone already is no error."""
        ...
