"""Judge the usage that an answer reports: figures of it are summed up, so they have to be some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_TOKENS = 10**9
"""A count above it is a defect of whoever tells it: no context holds a hundredth of that."""


def usage_fault(usage: Mapping[str, Any], max_tokens: int | None = None) -> str | None:
    """Say what is wrong with the usage of an answer that has tokens; None = nothing.

    `max_tokens` is the limit that the request asked for, None = none.
    """
    details = usage.get("prompt_tokens_details")
    if details is not None and not isinstance(details, Mapping):
        return f"prompt_tokens_details is {details!r}, no object"
    prompt: Any = usage.get("prompt_tokens")
    completion: Any = usage.get("completion_tokens")
    cached = (details or {}).get("cached_tokens", 0)
    if cached is None:
        cached = 0  # not reported, which is counted elsewhere
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
    faults = (fault for name, count in counts.items() if (fault := _count_fault(name, count)))
    return next(faults, None) or _sum_fault(prompt, completion, cached, max_tokens)


def _count_fault(name: str, count: object) -> str | None:
    if not isinstance(count, int) or isinstance(count, bool):
        return f"{name} is {count!r}, no number of tokens"
    if not 0 <= count <= MOST_TOKENS:
        return f"{name} is {count}"
    return None


def _sum_fault(prompt: int, completion: int, cached: int, max_tokens: int | None) -> str | None:
    """Say which counts cannot be true together."""
    if completion == 0:
        return "completion_tokens is 0, but tokens came"
    if max_tokens is not None and completion > max_tokens:
        return f"completion_tokens is {completion}, {max_tokens} were asked"
    if cached > prompt:
        return f"cached_tokens {cached} of {prompt} prompt tokens"
    return None
