"""Read the state that `pulumi stack export` gives. Checked once, here: whoever reads on trusts it.

A state is a file or an object that others can write to as well, and that a
restore, a merge or an editor may have spoilt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from fleet.errors import ApplyError

_JOINTS = 3  # urn:pulumi:STACK::PROJECT::TYPE::NAME


def _urn(text: str) -> str:
    if not text.startswith("urn:pulumi:") or text.count("::") < _JOINTS:
        raise ValueError("is no URN of a resource")
    return text


class _Part(BaseModel):
    """A part of a state; other keys are Pulumi's own, and null says the same as nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, found: Any) -> Any:
        if not isinstance(found, Mapping):
            return found
        return {key: value for key, value in found.items() if value is not None}


class StateResource(_Part):
    """One resource."""

    urn: Annotated[str, AfterValidator(_urn)]
    type: str
    protect: bool = False
    retained: bool = Field(default=False, alias="retainOnDelete")
    external: bool = False  # read, and never ours
    delete: bool = False  # its successor is there, and it waits to go
    deleted: bool = Field(default=False, alias="pendingReplacement")  # its successor is not there
    taint: bool = False  # to be replaced, whatever its inputs are
    inputs: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Logical name: `Kind/namespace/name` of an object in a cluster."""
        return self.urn.rpartition("::")[2]

    @property
    def is_settled(self) -> bool:
        """Whether it is what its inputs say; else the engine does something about it."""
        return not (self.delete or self.deleted or self.taint)

    @property
    def is_ours(self) -> bool:
        """Whether it is something that was made, not Pulumi's own or only read."""
        return not self.type.startswith("pulumi:") and not self.external


class PendingOperation(_Part):
    """One operation that was begun and never ended."""

    type: str
    resource: StateResource


class _Deployment(_Part):
    resources: tuple[StateResource, ...] = ()
    pending_operations: tuple[PendingOperation, ...] = ()


class _Exported(_Part):
    deployment: _Deployment = _Deployment()


class StackState(_Part):
    """What the state says of one stack."""

    resources: tuple[StateResource, ...] = ()
    pending: tuple[PendingOperation, ...] = ()


def read_state(stack: str, exported: Mapping[str, Any]) -> StackState:
    """Check an exported stack; raise ApplyError naming the stack and the first fault."""
    try:
        found = _Exported.model_validate(exported).deployment
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ApplyError(
            f"{stack}: its state is spoilt: {where}: {first['msg']}. Import a version of it that "
            "is whole with `pulumi stack import`; nothing was changed."
        ) from error
    return StackState(resources=found.resources, pending=found.pending_operations)
