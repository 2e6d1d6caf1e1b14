"""Say of each replica in a cluster which release its leader runs, and how it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.rollout.cluster import Cluster

SERVES = "serves"


def standings(clusters: Iterable[Cluster]) -> Mapping[str, tuple[str, str]]:
    """Give release and standing of each replica that has a leader."""
    found: dict[str, tuple[str, str]] = {}
    for cluster in clusters:
        routed, workers = cluster.in_routing(), cluster.workers()
        for pod in cluster.engines():
            if pod.leader:
                found[pod.replica] = (
                    pod.release,
                    _standing(
                        gone=pod.deleting,
                        ready=pod.ready,
                        chosen=pod.name in routed and pod.name in workers,
                    ),
                )
    return found


def _standing(*, gone: bool, ready: bool, chosen: bool) -> str:
    if gone:
        return "ends"
    if not ready:
        return "not ready"
    return SERVES if chosen else "out of routing"
