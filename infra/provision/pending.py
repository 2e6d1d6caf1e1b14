"""Find operations that a cut-off update left open, and say how each is closed.

A killed engine leaves its state saying "creating", "updating" or "deleting"
this. What really happened is only known where it happened: an object that was
to be created may be there or not. So we look, and take it into the state or
drop the intention; a refresh settles everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from infra.stack_events import Part
from infra.stack_state import PendingOperation, StackState

Verdict = Literal["take in", "drop", "refresh", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One operation that was begun and never ended."""

    urn: str
    operation: str  # creating, updating, deleting, reading, importing
    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def id(self) -> str:
        """Identity of the object for the Kubernetes provider: `namespace/name`, or `name`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def label(self) -> str:
        """Name the object as everywhere: `Kind/namespace/name`."""
        return self.urn.rpartition("::")[2]

    @property
    def looked_for(self) -> bool:
        """Say whether it is an object of a cluster, which can be looked for."""
        return bool(self.api_version and self.kind and self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What to do about one operation, and why."""

    pending: Pending
    verdict: Verdict
    why: str


def read_pending(state: StackState) -> tuple[Pending, ...]:
    """Read the open operations of a stack."""
    return tuple(_pending(item) for item in state.pending)


def closings(pending: Iterable[Pending], exists: Callable[[Pending], bool]) -> tuple[Closing, ...]:
    """Decide about each; `exists` looks into the cluster."""
    return tuple(_closing(item, exists) for item in pending)


def repair_words(decided: Iterable[Closing]) -> tuple[str, ...]:
    """Give the words for `pulumi refresh` that close what was decided."""
    words: list[str] = []
    drops = False
    for one in decided:
        if one.verdict == "take in":  # the flag takes a list of URN, ID, URN, ID …
            words += ["--import-pending-creates", one.pending.urn]
            words += ["--import-pending-creates", one.pending.id]
        drops = drops or one.verdict == "drop"
    return (*words, *(("--clear-pending-creates",) if drops else ()))


def _closing(item: Pending, exists: Callable[[Pending], bool]) -> Closing:
    if item.operation != "creating":
        return Closing(pending=item, verdict="refresh", why="it is read again")
    if not item.looked_for:
        return Closing(
            pending=item,
            verdict="unknown",
            why="it is in a cloud: look there, then import it by hand or clear it with "
            "`pulumi refresh --clear-pending-creates`",
        )
    if exists(item):
        return Closing(pending=item, verdict="take in", why="the object is there")
    return Closing(pending=item, verdict="drop", why="there is no such object")


def _pending(item: PendingOperation) -> Pending:
    resource = item.resource
    inputs = Part(resource.inputs)
    metadata = inputs.part("metadata")
    ours = resource.type.startswith("kubernetes:")
    return Pending(
        urn=resource.urn,
        operation=item.type,
        api_version=str(inputs.get("apiVersion", "")) if ours else "",
        kind=str(inputs.get("kind", "")) if ours else "",
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or "") if ours else "",
    )
