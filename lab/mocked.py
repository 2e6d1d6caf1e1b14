"""Say what is mocked in a rehearsal of a release; the report shows it beside what is real."""

from __future__ import annotations

from fleet.release import Release
from lab.engines import KV_TRANSFER_GB_PER_S

_ENGINES = (
    (
        "GPUs: each replica is one dynamo.mocker process with the release's block size and cache "
        "blocks; no tensor is computed and the answers are random tokens"
    ),
    (
        "Time: prefill and decode speed come from a table fitted to a published GB300 run, "
        "not from hardware; good for shape and order, not for promises"
    ),
    (
        "KDA state snapshots: the mocker has one pool of token blocks, so state eviction is not "
        "rehearsed"
    ),
    "Weights: nothing is loaded",
)
_NOT_VLLM = (
    "Scheduling: the mocker schedules as vLLM does; the one that does as SGLang reports no cached "
    "tokens"
)
_TRANSFER = (
    "Cache transfer: from prefill to decode nothing is sent; it takes the time that its MLA bytes "
    f"would take inside a rack at {KV_TRANSFER_GB_PER_S} GB/s, without the KDA state"
)
_HOUSE_ENGINE = (
    (
        "House engine: the command of the release really ran, one process per pod, with what is "
        "on this machine's PATH; its image was not used"
    ),
    (
        "Scale: the engine was given scaled-down prompts and has its own cache size and speed, so "
        "its latencies and its evictions are those of this machine"
    ),
    "Weights: a folder with the model's configuration and a tokenizer stands for them",
)
_SURROUNDINGS = (
    "Machines: nodes are KWOK objects; NVLink, IMEX and DRA claims are left out",
    (
        "LeaderWorkerSet controller: a small double for replicas 1, size 2; the StatefulSets it "
        "makes are real"
    ),
    "Kubelet and cluster DNS: a process kubelet on loopback addresses starts one process per pod",
    "Pulumi's Python language host: a small one of ours; engine and provider are real",
)


def mocked(release: Release) -> tuple[str, ...]:
    """List the mocked parts, each with what stands in for it."""
    if release.engine.custom is not None:
        return (*_HOUSE_ENGINE, *_SURROUNDINGS)
    not_vllm = () if release.engine.kind == "vllm" else (_NOT_VLLM,)
    transfer = () if release.disaggregation is None else (_TRANSFER,)
    return (*_ENGINES, *not_vllm, *transfer, *_SURROUNDINGS)
