"""Every resource of a cloud says whose it is."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Provider, Resource

REQUIRED = ("k3fleet:fleet", "k3fleet:managed-by")
# Tags that a provider puts on everything it makes.
_DEFAULTS = (("defaultTags", "tags"), ("defaultLabels", None))


@functools.cache
def taggable() -> Mapping[str, str]:
    """Give the input that holds tags, by type."""
    file = Path(__file__).with_name("taggable.yaml")
    found: dict[str, str] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def _tagged(resource: Resource, config: Config) -> Faults:
    path = taggable().get(resource.type.replace("V2", ""))
    if path is None:
        return
    carried = _carried(resource, path)
    if UNKNOWN in carried:
        return
    missing = [name for name in config.get("required", REQUIRED) if _key(name) not in carried]
    if missing:
        yield Fault(resource, f"{', '.join(missing)} is not among its tags", "Add it")


def _carried(resource: Resource, path: str) -> set[str]:
    places = [resource.at(path), resource.at("tagsAll")]
    if resource.provider:
        places += [_default(resource.provider, *default) for default in _DEFAULTS]
    if UNKNOWN in [place for place in places if isinstance(place, str)]:
        return {UNKNOWN}
    return {_key(key) for place in places if isinstance(place, Mapping) for key in place}


def _default(provider: Provider, key: str, below: str | None) -> Any:
    """Read what a provider adds; a provider's own settings travel as JSON."""
    found = provider.props.get(key)
    if isinstance(found, str) and found != UNKNOWN:
        try:
            found = json.loads(found)
        except ValueError:  # the provider refuses it
            return None
    return found.get(below) if below and isinstance(found, Mapping) else found


def _key(name: str) -> str:
    """Compare keys as clouds write them: those without colons get dashes."""
    return name.replace(":", "-")


POLICIES = (
    Policy(
        name="required-tags",
        title="Cloud resources carry the tags of their fleet",
        one=_tagged,
        config={
            "required": {
                "type": "array",
                "items": {"type": "string"},
                "default": list(REQUIRED),
            }
        },
    ),
)
