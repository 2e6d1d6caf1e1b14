"""Follow sessions through a rollout of releases that are kept apart: which replica had which."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from region_sessions import Call, Talk, talk_in
from rollout_lab import Lab

from fleet.rollout.record import Ended, Started
from infra.rollout.cluster import Cluster
from infra.rollout.journal import Journal
from verify.smoke import worker_answers


def talk_by_replica(lab: Lab, cluster: Cluster) -> Talk:
    """Have the replica that answered in place of its region."""
    replicas = {worker: pod.removesuffix("-0") for pod, worker in cluster.workers().items()}
    return replace(talk_in(lab, words=20, pause_s=2.0), regions=replicas)


def known_sets(lab: Lab, cluster: Cluster) -> dict[str, set[str]]:
    """Tell of which sets the frontend of each set reaches the engines."""
    leaders = {pod.set: pod.name for pod in cluster.engines() if pod.leader}
    return {name: _reached(lab, cluster, name, leaders) for name in leaders}


def _reached(lab: Lab, cluster: Cluster, set_: str, leaders: Mapping[str, str]) -> set[str]:
    [frontend] = cluster.frontends(set_)
    return {
        other
        for other, pod in leaders.items()
        if worker_answers(frontend.url, lab.model, cluster.workers()[pod], http=frontend.http)
    }


def drained_at(record: Path) -> dict[str, float]:
    """Say when each replica was drained, on the clock of calls: before that it ran the old one."""
    entries = Journal(record).read()
    ends = [e.at_s for e in entries if isinstance(e, Ended) and e.phase == "drain"]
    [started] = [e for e in entries if isinstance(e, Started)]
    names = [place.replica for step in started.steps for place in step.places]
    offset = time.time() - time.monotonic()
    return {name: at - offset for name, at in zip(names, ends, strict=True)}


def sides(calls: Iterable[Call], drained: Mapping[str, float]) -> dict[str, list[bool]]:
    """Tell of the calls of each session, in order, whether the new release answered."""
    found: dict[str, list[bool]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.began_s):
        found[call.session].append(call.began_s > drained[call.region])
    return found
