"""Hold what a policy looks at, free of Pulumi's own types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Config = Mapping[str, Any]
Level = Literal["mandatory", "advisory"]

# What a preview cannot know yet. A policy that meets it waits: the update asks again.
UNKNOWN = "(known after the update has made it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Through what a resource is made."""

    type: str  # pulumi:providers:aws
    name: str
    props: Mapping[str, Any]

    @property
    def package(self) -> str:
        """Name of the provider: aws, gcp, kubernetes."""
        return self.type.rpartition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource: its inputs, or its outputs when the whole stack is judged."""

    type: str
    name: str
    urn: str = ""
    props: Mapping[str, Any] = field(default_factory=dict)
    protected: bool = False
    provider: Provider | None = None
    uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # input -> URNs it is made of

    def at(self, path: str) -> Any:
        """Look a value up by a path such as `spec.template`; None where there is nothing."""
        found: Any = self.props
        for part in path.split("."):
            if not isinstance(found, Mapping):
                return None
            found = found.get(part)
        return found

    def items(self, path: str) -> list[Any]:
        """Look a list up; what is none counts as empty."""
        found = self.at(path)
        return list(found) if isinstance(found, list | tuple) else []

    def parts(self, path: str) -> list[Resource]:
        """Look a list of mappings up, each to be asked as this one is."""
        return [
            Resource(type="", name=self.name, props=item)
            for item in self.items(path)
            if isinstance(item, Mapping)
        ]


class Fault(NamedTuple):
    """What is wrong, where, and what to do."""

    resource: Resource
    what: str
    fix: str

    def __str__(self) -> str:
        """Format like every message of k3fleet: where, what, what to do."""
        return f"{self.resource.name}: {self.what}. {self.fix}."


Faults = Iterator[Fault]
OfOne = Callable[[Resource, Config], Iterable[Fault]]
OfStack = Callable[[Sequence[Resource], Config], Iterable[Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What must hold, and the function that finds where it does not."""

    name: str
    title: str
    level: Level = "mandatory"
    one: OfOne | None = None  # asked for each resource, before it is made
    stack: OfStack | None = None  # asked once, with all of them
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # JSON schemas, defaults
