"""Judge the usage that an answer reports: figures of it are summed up, so they have to be some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def usage_fault(usage: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the usage of an answer that has tokens; None = nothing."""
    details = usage.get("prompt_tokens_details")
    counts = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "cached_tokens": details.get("cached_tokens") if isinstance(details, Mapping) else None,
    }
    for name, count in counts.items():
        if count is None and name == "cached_tokens":
            continue  # not reported, which is counted elsewhere
        if not isinstance(count, int) or isinstance(count, bool):
            return f"{name} is {count!r}, no number of tokens"
        if count < 0:
            return f"{name} is {count}"
    if counts["completion_tokens"] == 0:
        return "completion_tokens is 0, but tokens came"
    if (counts["cached_tokens"] or 0) > (counts["prompt_tokens"] or 0):
        return f"cached_tokens {counts['cached_tokens']} of {counts['prompt_tokens']} prompt tokens"
    return None
