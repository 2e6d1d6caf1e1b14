"""Judge what was seen in a region during a rollout. Pure: facts come in, sentences go out.

An empty answer means that nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.rollout.strategy import Floor
from fleet.rollout.waves import serving_at_least
from infra.frontend import KINDS as FRONTEND_KINDS
from infra.frontend import frontend_name
from infra.stack_events import Touched

# Of the errors that a frontend counts, these are the client's own.
CLIENTS_OWN = frozenset({"validation", "not_found", "cancelled"})
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePod:
    """One of a replica's pods."""

    name: str
    uid: str
    replica: str
    rack: str
    release: str
    leader: bool
    phase: str
    ready: bool
    deleting: bool
    routed: bool
    address: str | None
    node: str = ""  # "": not placed yet
    set: str = ""  # of releases that the same frontends serve


def floor_broken(
    serving: Collection[str], racks: Mapping[str, str], step: Collection[str], floor: Floor
) -> str:
    """Say whether too few replicas serve without those of the step.

    `racks` has the rack of every replica of the region. A step whose replicas do not serve now
    takes nothing away, so it may always go on: it is how a broken release is turned back.
    """
    if not set(step) & set(serving):
        return ""
    staying = set(serving) - set(step)
    wanted = serving_at_least(len(racks), floor.region)
    if len(staying) < wanted:
        return f"{len(staying)} of {len(racks)} replicas would serve, the floor is {wanted}"
    for rack in sorted({racks[name] for name in step}):
        own = {name for name, where in racks.items() if where == rack}
        wanted = serving_at_least(len(own), floor.rack)
        if len(staying & own) < wanted:
            left = len(staying & own)
            return f"rack {rack}: {left} of {len(own)} replicas would serve, the floor is {wanted}"
    return ""


def pods_missing(pods: Iterable[EnginePod], wanted: Iterable[str], release: str, nodes: int) -> str:
    """Say which replicas do not run all their pods with a release, leader Ready."""
    own: dict[str, list[EnginePod]] = {name: [] for name in wanted}
    for pod in pods:
        if pod.replica in own and pod.release == release and not pod.deleting:
            own[pod.replica].append(pod)
    return listed(
        f"{name}: {why}" for name, group in own.items() if (why := _group_missing(group, nodes))
    )


def _group_missing(group: list[EnginePod], nodes: int) -> str:
    running = [pod for pod in group if pod.phase == "Running"]
    if len(running) < nodes:
        return f"{len(running)} of {nodes} pods run"
    return "" if any(pod.leader and pod.ready for pod in running) else "its leader is not Ready"


def weights_missing(
    pods: Iterable[EnginePod],
    nodes: Mapping[str, Mapping[str, str]],
    step: Collection[str],
    wanted: Mapping[str, str],
) -> str:
    """Say on which nodes of the step's replicas weights are not whole.

    `nodes` has each node's labels, `wanted` those of a node that holds all weights of the release.
    A replica whose nodes are gone waits for the scheduler, and with it for the labels.
    """
    own = sorted({pod.node for pod in pods if pod.replica in step and pod.node})
    return listed(
        f"node {name} does not have {key.rpartition('/')[2]}"
        for name in own
        if name in nodes
        for key, value in wanted.items()
        if nodes[name].get(key) != value
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsTurn:
    """Which sets of releases come into a region with a step's first replica, or leave it."""

    comes: frozenset[str] = frozenset()
    goes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, others: Collection[str], target: str, either: Collection[str]) -> SetsTurn:
        """Compare the sets of all other replicas with the one that the step leads to.

        `either`: the sets of the rollout's two releases; what became of a third is no step's doing.
        """
        return cls(
            comes=frozenset({target}) - frozenset(others),
            goes=frozenset(either) - {target} - frozenset(others),
        )


def touches_others(
    touched: Iterable[Touched], step: Collection[str], turn: SetsTurn = SetsTurn()
) -> str:
    """Say what an update does beside its replicas' own objects, or does to them by deleting.

    New ConfigMaps come with a new release, and those of the old one go with its last replica; so
    do the frontends of a set.
    """
    allowed = {("LeaderWorkerSet", name, how) for name in step for how in ("update", "create")}
    for sets, how in ((turn.comes, "create"), (turn.goes, "delete")):
        allowed |= {(kind, frontend_name(set_), how) for set_ in sets for kind in FRONTEND_KINDS}
    return listed(
        f"{item.operation} {item.kind} {item.name}"
        for item in touched
        if item.kind != "ConfigMap"
        and (item.kind, item.name.rpartition("/")[2], item.operation) not in allowed
    )


def differs(live: Mapping[str, Any], rendered: Mapping[str, Any]) -> str:
    """Say where the live object of a replica is not what its release renders to."""
    return listed(_differences(live, rendered))


def _differences(live: Mapping[str, Any], rendered: Mapping[str, Any]) -> Iterator[str]:
    label = "k3fleet.io/release"
    found, wanted = (item["metadata"]["labels"].get(label) for item in (live, rendered))
    if found != wanted:
        yield f"release {found}, not {wanted}"
    for template in ("leaderTemplate", "workerTemplate"):
        there, meant = (
            item["spec"]["leaderWorkerTemplate"][template]["spec"] for item in (live, rendered)
        )
        for kind in ("initContainers", "containers"):
            yield from container_differences(template, there.get(kind, ()), meant.get(kind, ()))


def container_differences(
    template: str, live: Iterable[Mapping[str, Any]], rendered: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """Say where containers are not what was rendered."""
    found, wanted = ({item["name"]: _meant(item) for item in items} for items in (live, rendered))
    for name in sorted(found.keys() | wanted.keys()):
        there, meant = found.get(name), wanted.get(name)
        if there is None or meant is None:
            yield f"{template}: container {name} is {'missing' if there is None else 'new'}"
        else:
            for key in meant:
                if there[key] != meant[key]:
                    yield f"{template}: {name}: {key} is not the release's"


def _meant(container: Mapping[str, Any]) -> dict[str, object]:
    """Take what decides the answers of a container, without what API servers add."""
    env = {}
    for entry in container.get("env", ()):
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        env[entry["name"]] = entry.get("value", "") if field is None else ("field", field)
    return {
        "image": container.get("image"),
        "command": list(container.get("command", ())),
        "args": list(container.get("args", ())),
        "env": env,
    }


def listed(parts: Iterable[str]) -> str:
    """Join the first few of many findings."""
    found = list(parts)
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more
