"""Read what the Pulumi engine said about one update.

The engine writes one JSON object per line. Only three kinds matter here: the
summary, errors, and the outputs of the stack itself. Messages are shortened,
because a Kubernetes error may quote a whole object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN_CHARACTERS = 400

# Words of the engine. Source: pulumi/pulumi, pkg/resource/deploy/step_generator.go and
# pkg/engine/deployment.go, v3.274.
_PROTECTED = ("because it is protected", "marked for protection")
_URN = re.compile(r"urn:pulumi:[^\s\"'`]+")
_URN_JOINTS = 3  # urn:pulumi:STACK::PROJECT::TYPE::NAME
_PENDING = "pending operations"
_COLOUR = re.compile(r"<\{%[^%]*%\}>")
CHANGES_NOTHING = frozenset({"same", "read", "refresh"})
_API_SERVER = re.compile(
    r'^(Preview failed: )?resource "[^"]*" was not successfully \w+ by the Kubernetes API server: '
)
# These follow every failure and say less than the failure itself.
_ECHOES = (
    "an unhandled error occurred: Program exited with non-zero exit code",
    "update failed",
    "preview failed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What an update does, or would do, to one object of ours."""

    operation: str  # as Pulumi says it: create, update, delete, replace …
    kind: str
    name: str  # the logical name: `Kind/namespace/name`
    urn: str = field(default="", compare=False)
    changed: tuple[str, ...] = field(default=(), compare=False)  # paths that differ
    forced_by: tuple[str, ...] = field(default=(), compare=False)  # paths that ask for a new one
    type: str = field(default="", compare=False)  # Pulumi's type token
    protected: bool = field(default=False, compare=False)  # so the state says
    retained: bool = field(default=False, compare=False)  # stays when Pulumi forgets it


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an update did, as far as the engine came to say it."""

    changes: Mapping[str, int] = field(default_factory=dict)  # operation -> resources
    outputs: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    touched: tuple[Touched, ...] = ()
    blocked: tuple[str, ...] = ()  # URNs that the engine would not delete: they are protected
    pending: bool = False  # an earlier update was cut off in the middle of an operation
    # Of a preview: an update would change nothing, neither a resource nor what the state says.
    idle: bool = False


class Part(dict[str, Any]):
    """A part of an event. Whatever a log holds, reading it must not end the update it is of."""

    def part(self, key: str) -> Part:
        """Give the mapping below a key; empty where there is none."""
        value = self.get(key)
        return Part(value) if isinstance(value, dict) else Part()

    def texts(self, key: str) -> tuple[str, ...]:
        """Give the words of a list, or the keys of a mapping."""
        value = self.get(key)
        return tuple(map(str, value)) if isinstance(value, list | dict) else ()


def _blocked(told: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Find what the engine would not delete; older engines name it in the text only."""
    for item in told:
        text = str(item.get("message", ""))
        if any(words in text for words in _PROTECTED):
            found = _URN.search(text)
            urn = str(item.get("urn") or (found.group() if found else ""))
            yield urn if urn.count("::") >= _URN_JOINTS else ""


def read_outcome(events: Path) -> Outcome:
    """Read an event log; one that is missing or cut short gives what it holds."""
    if not events.is_file():
        return Outcome()
    with events.open(encoding="utf-8", errors="replace") as lines:
        return outcome(lines)


def outcome(lines: Iterable[str]) -> Outcome:
    """Read the lines of an event log."""
    changes: Mapping[str, int] = {}
    outputs: Mapping[str, Any] = {}
    errors: dict[str, list[str]] = {}  # what is wrong -> objects
    touched: dict[Touched, None] = {}  # in their order, each once
    told: list[Mapping[str, Any]] = []
    same = _Sameness()
    for event in map(Part, _events(lines)):
        same.hear(event)
        if summary := event.part("summaryEvent"):
            counted = summary.part("resourceChanges")
            changes = {name: n for name, n in counted.items() if isinstance(n, int)}
        elif diagnostic := event.part("diagnosticEvent"):
            _add_error(errors, diagnostic)
            told.append(diagnostic)
        elif policy := event.part("policyEvent"):
            _add_violation(errors, policy)
        elif result := event.part("resOutputsEvent"):
            outputs = _stack_outputs(result) or outputs
        elif (step := event.part("resourcePreEvent")) and (found := _touched(step)):
            touched[found] = None
    shown = tuple(_with_objects(text, names) for text, names in errors.items())
    return Outcome(
        changes=changes,
        outputs=outputs,
        errors=shown,
        touched=tuple(touched),
        blocked=tuple(dict.fromkeys(filter(None, _blocked(told)))),
        pending=any(_PENDING in str(item.get("message")) for item in told),
        idle=same.whole and not errors,
    )


def log_errors(log: str) -> tuple[str, ...]:
    """Find the errors that the command line prints before an engine exists."""
    lines = [line.strip() for line in log.splitlines()]
    found = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return tuple(_short(line) for line in found)


class _Sameness:
    """Finds out whether a run leaves everything as it is.

    "Same" means for the engine that nobody has to be asked for anything. The state may still
    change: what is protected, what it is called, what the stack tells its readers.
    """

    # Of a resource, before its provider was asked; afterwards they are what they will be.
    _LATER = frozenset({"id", "outputs"})

    def __init__(self) -> None:
        self._changes = False
        self._told = False  # the stack has said its outputs, which comes last
        self._ended = False

    @property
    def whole(self) -> bool:
        """Whether all was heard, and all of it was the same."""
        return self._told and self._ended and not self._changes

    def hear(self, event: Part) -> None:
        """Take note of one event."""
        if before := event.part("resourcePreEvent").part("metadata"):
            self._changes |= self._differs(before, self._LATER)
        elif after := event.part("resOutputsEvent").part("metadata"):
            self._changes |= self._differs(after, frozenset())
            self._told |= after.get("type") == "pulumi:pulumi:Stack"
        elif summary := event.part("summaryEvent"):
            self._ended = summary.get("result") == "succeeded"

    @staticmethod
    def _differs(metadata: Part, later: frozenset[str]) -> bool:
        if metadata.get("op") == "read":
            return False
        old, new = metadata.part("old"), metadata.part("new")
        keys = (old.keys() | new.keys()) - later
        return metadata.get("op") != "same" or any(old.get(it) != new.get(it) for it in keys)


def _events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # the last line of a killed engine
            continue
        if isinstance(event, dict):
            yield event


def _add_error(errors: dict[str, list[str]], diagnostic: Mapping[str, Any]) -> None:
    """Collect errors by what they say: one cause often hits every object."""
    if diagnostic.get("severity") != "error":
        return
    text = _COLOUR.sub("", str(diagnostic.get("message", ""))).strip()
    if not text or text.startswith(_ECHOES):
        return
    name = str(diagnostic.get("urn", "")).rpartition("::")[2]
    # Only our own resources have a slash in their name; the stack itself says nothing.
    errors.setdefault(_short(_API_SERVER.sub("", text)), []).extend([name] if "/" in name else [])


def _add_violation(errors: dict[str, list[str]], policy: Mapping[str, Any]) -> None:
    """Collect what a policy pack forbids; its advice is left to the log."""
    if policy.get("enforcementLevel") != "mandatory":
        return
    text = _COLOUR.sub("", str(policy.get("message", ""))).strip().replace("\n", ": ")
    name = str(policy.get("resourceUrn", "")).rpartition("::")[2]
    told = _short(f"policy {policy.get('policyName', '?')}: {text}")
    errors.setdefault(told, []).extend([name] if "/" in name else [])


def _with_objects(text: str, names: list[str]) -> str:
    if not names:
        return text
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {text}"


def _touched(step: Part) -> Touched | None:
    """Read one step; None where nothing is changed, or where it is Pulumi's own object."""
    metadata = step.part("metadata")
    operation = str(metadata.get("op", ""))
    kind = str(metadata.get("type", ""))
    if operation in CHANGES_NOTHING or kind.startswith("pulumi:"):
        return None
    urn = str(metadata.get("urn", ""))
    old = metadata.part("old")
    differing = metadata.part("detailedDiff")
    forcing = [p for p in differing if "replace" in str(differing.part(p).get("diffKind"))]
    return Touched(
        operation=operation,
        kind=kind.rpartition(":")[2],
        name=urn.rpartition("::")[2],
        urn=urn,
        changed=tuple(differing) or metadata.texts("diffs"),
        forced_by=tuple(forcing) or metadata.texts("keys"),
        type=kind,
        protected=bool(old.get("protect")),
        retained=bool(old.get("retainOnDelete")),
    )


def _stack_outputs(result: Part) -> Mapping[str, Any] | None:
    metadata = result.part("metadata")
    if metadata.get("type") != "pulumi:pulumi:Stack":
        return None
    return metadata.part("new").part("outputs")


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
