"""Change what a region shares in one step: its frontends and its gateway.

Both are Deployments, which make a new pod, wait until it is Ready, and only then end an old one,
whose streams go on until they end or its grace is over. So nothing is drained here; what has to be
seen is that nothing else changes, that all new pods know the model, and that traffic is well
behind them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.rollout.counters import Counts, PromptTokens, lifetime
from fleet.rollout.record import Seen
from infra.render import KubeObject
from infra.rollout.checks import container_differences, listed
from infra.rollout.endpoint import Endpoint
from infra.stack_events import Touched

Named = Mapping[tuple[str, str], KubeObject]  # (kind, name) -> object
_FILES = ("create", "update", "delete")
MODELS_PAGE = "/v1/models"


def touches_more(touched: Iterable[Touched], own: Iterable[tuple[str, str]]) -> str:
    """Say what an update does beside frontends and gateway, or does to them but updating.

    `own`: kinds and names of theirs, as the old and the new release render to. A ConfigMap that is
    read once has a new name when its content changes, so one comes and one goes.
    """
    known = set(own)
    return listed(
        f"{item.operation} {item.kind} {item.name}"
        for item in touched
        if (item.kind, item.name.rpartition("/")[2]) not in known
        or item.operation not in (_FILES if item.kind == "ConfigMap" else ("update",))
    )


def other_than(live: Mapping[str, Mapping[str, Any]], rendered: Named) -> str:
    """Say where Deployments are not what they render to."""
    return listed(_others(live, rendered))


def _others(live: Mapping[str, Mapping[str, Any]], rendered: Named) -> Iterator[str]:
    for (kind, name), wanted in rendered.items():
        if kind != "Deployment":
            continue
        if name not in live:
            yield f"{name} is not there"
            continue
        found, meant = (item["spec"]["template"]["spec"] for item in (live[name], wanted))
        yield from container_differences(name, found["containers"], meant["containers"])
        if _maps(found) != _maps(meant):
            yield f"{name}: it reads other files"


def _maps(pod: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        str(volume["configMap"]["name"])
        for volume in pod.get("volumes", ())
        if volume.get("configMap")
    )


def not_rolled(live: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> str:
    """Say which Deployments do not have all their pods, all new and all available."""
    return listed(f"{name}: {why}" for name in names if (why := _not_rolled(live.get(name))))


def _not_rolled(item: Mapping[str, Any] | None) -> str:
    if item is None:
        return "is not there"
    status, wanted = item.get("status", {}), item["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < item["metadata"]["generation"]:
        return "its change was not seen yet"
    new, ready = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if new < wanted or ready < wanted:
        return f"{new} of {wanted} pods are new, {ready} available"
    old = status.get("replicas", 0) - new
    return f"{old} old pods are left" if old > 0 else ""


def unknowing(frontends: Iterable[Endpoint], model: str) -> str:
    """Say which frontends do not list the model."""
    return listed(
        f"frontend {at.pod} does not know the model"
        for at in frontends
        if model not in _models(at.page(MODELS_PAGE))
    )


def _models(text: str | None) -> frozenset[str]:
    try:
        return frozenset(str(item["id"]) for item in json.loads(text or "{}")["data"])
    except (ValueError, KeyError, TypeError):
        return frozenset()


def seen(frontends: Iterable[Counts]) -> Seen:
    """Write down what frontends have counted."""
    total = lifetime(frontends)
    return Seen(
        requests=total.requests,
        errors=total.errors,
        prompt_tokens=total.tokens.prompt,
        cached_tokens=total.tokens.cached,
    )


def counts_of(found: Seen | None) -> Counts:
    """Read what was written down; without it nothing is known."""
    if found is None:
        return Counts()
    return Counts(
        requests=found.requests,
        errors=found.errors,
        tokens=PromptTokens(prompt=found.prompt_tokens, cached=found.cached_tokens),
    )
