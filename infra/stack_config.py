"""Check a stack's configuration file (Pulumi.STACK.yaml) without Pulumi.

The program refuses the same things, but only once an engine has started it; an
unknown key it would not even see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fleet.api_version import newer_fault
from fleet.errors import Problem
from fleet.load import Fleet
from fleet.schema import found_text, suggestion
from fleet.yaml_document import Document, read_document
from infra.settings import CLUSTER_KEYS, OPTION_KEYS, REQUIRED_KEYS, VERSION_KEY

START = "Give the Pulumi.STACK.yaml of a stack of ours"
PROJECT_PREFIX = "k3fleet-"

# Layer -> (keys that it must have, keys that it may have).
_REGION_KEYS = (REQUIRED_KEYS, (*OPTION_KEYS, "context", "releases"))
LAYER_KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "global": (("fleet",), ()),
    "cluster": (CLUSTER_KEYS, ()),
    "platform": _REGION_KEYS,
    "serving": _REGION_KEYS,
}


def stack_file_problems(path: Path, fleet: Fleet) -> list[Problem]:
    """Find what is wrong with a stack's configuration for a fleet."""
    document = read_document(path, start=START)
    if document.is_broken(()):
        return list(document.problems)
    config = document.data.get("config") if isinstance(document.data, dict) else None
    ours = _by_layer(config) if isinstance(config, dict) else {}
    if not ours:
        what = "holds no configuration of a project of k3fleet"
        fix = (
            f"Its keys begin with one of {', '.join(f'{PROJECT_PREFIX}{it}:' for it in LAYER_KEYS)}"
        )
        return [*document.problems, document.problem(("config",), what, fix)]
    problems = list(document.problems)
    for layer, values in ours.items():
        problems += _layer_problems(document, layer, values, fleet)
    return problems


def _by_layer(config: Mapping[str, object]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, value in config.items():
        project, colon, key = name.partition(":")
        if colon and project.startswith(PROJECT_PREFIX):
            found.setdefault(project.removeprefix(PROJECT_PREFIX), {})[key] = value
    return found


def _layer_problems(
    document: Document, layer: str, values: Mapping[str, object], fleet: Fleet
) -> Iterator[Problem]:
    def problem(key: str, what: str, fix: str) -> Problem:
        return document.problem(("config", f"{PROJECT_PREFIX}{layer}:{key}"), what, fix)

    if layer not in LAYER_KEYS:
        key = next(iter(values))
        yield problem(key, "is of no project of k3fleet", suggestion(layer, LAYER_KEYS))
        return
    if fault := newer_fault(values.get(VERSION_KEY)):
        # What a later version means by its keys is not for us to judge.
        yield problem(VERSION_KEY, *fault)
        return
    required, optional = LAYER_KEYS[layer]
    known = (*required, *optional, VERSION_KEY)
    for key in values:
        if key not in known:
            yield problem(key, "unknown key", suggestion(key, known))
    for key in required:
        if not values.get(key):
            fix = f"Run `pulumi config set {key} VALUE`"
            yield problem(key, "is not set", fix)
    region = values.get("region")
    names = [region.name for region in fleet.spec.regions]
    if region and region not in names:
        what = f"{found_text(region)} is no region of fleet {fleet.spec.name}"
        yield problem("region", what, suggestion(str(region), names))
