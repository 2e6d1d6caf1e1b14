"""Check numbers that an engine's parser reads and its own classes of settings refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fleet.flag_fault import Fault
from fleet.flag_words import Use


class _Bound(NamedTuple):
    above: float  # exclusive
    most: float
    said: str


_FROM_ONE = _Bound(0, float("inf"), "a number from 1")
_SHARE = _Bound(0, 1, "a share over 0, at most 1")
# vllm.config, `Field(ge=1)` of SchedulerConfig and ParallelConfig, `Field(gt=0, le=1)` of
# CacheConfig, in the published wheels.
_VLLM: Mapping[str, _Bound] = {
    "--max-num-seqs": _FROM_ONE,
    "--max-num-batched-tokens": _FROM_ONE,
    "--tensor-parallel-size": _FROM_ONE,
    "--pipeline-parallel-size": _FROM_ONE,
    "--gpu-memory-utilization": _SHARE,
}
_BOUNDS: Mapping[str, Mapping[str, _Bound]] = {"vllm": _VLLM, "dynamo.vllm": _VLLM}


def bound_faults(program: str, uses: Sequence[Use]) -> Iterator[Fault]:
    """Yield the numbers of one line that are out of bounds; what is no number is not for here."""
    bounds = _BOUNDS.get(program, {})
    for use in uses:
        names = use.flag.names if use.flag and not use.key else ()
        bound = next((bounds[name] for name in names if name in bounds), None)
        if bound is None or not use.values or use.values[0].is_open:
            continue
        value = _number(use.values[0].text)
        if value is not None and not bound.above < value <= bound.most:
            what = f"{use.name} takes {bound.said}, found '{use.values[0].text}'"
            yield Fault("type", use.index, use.name, what, "Correct the value")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
