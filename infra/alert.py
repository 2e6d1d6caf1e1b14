"""Say what an alert of Prometheus consists of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert: when it fires, what it means, what to do."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    description: str
