"""Write what other schedulers and queues read on engines.

Replicas are pinned to their rack, so the default scheduler is enough; a gang
scheduler adds that no half of a replica takes nodes when several are down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.spec import Backend, SchedulingSpec

_SCHEDULERS = {"none": None, "kai": "kai-scheduler", "volcano": "volcano"}

# KAI groups the pods of a LeaderWorkerSet by itself and reads the queue off their labels.
# LeaderWorkerSet makes Volcano's PodGroup and takes the queue from its own annotations.
KAI_QUEUE = "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
OPERATOR_QUEUE = "nvidia.com/kai-scheduler-queue"  # read by Dynamo's operator
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingValues:
    """What an engine's object and its pods carry beside the usual labels."""

    scheduler: str | None = None  # None: the cluster's default
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_labels: Mapping[str, str] = field(default_factory=dict)


def scheduling_values(spec: SchedulingSpec, backend: Backend = "lws") -> SchedulingValues:
    """Compute the extras of a fleet file's `scheduling`; nothing by default."""
    if backend == "dgd":
        return _of_operator(spec)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    pod_labels: dict[str, str] = {}
    if spec.kueue_queue is not None:
        labels[KUEUE_QUEUE] = spec.kueue_queue
    if spec.gang == "kai" and spec.queue is not None:
        labels[KAI_QUEUE] = pod_labels[KAI_QUEUE] = spec.queue
    if spec.gang == "volcano" and spec.queue is not None:
        annotations[VOLCANO_QUEUE] = spec.queue
    return SchedulingValues(
        scheduler=_SCHEDULERS[spec.gang],
        labels=labels,
        annotations=annotations,
        pod_labels=pod_labels,
    )


def _of_operator(spec: SchedulingSpec) -> SchedulingValues:
    """Compute what Dynamo's operator hands on: it makes the gangs itself, through Grove."""
    queue = {OPERATOR_QUEUE: spec.queue} if spec.gang == "kai" and spec.queue else {}
    return SchedulingValues(scheduler=_SCHEDULERS[spec.gang], annotations=queue)
