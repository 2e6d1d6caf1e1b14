"""Describe how a region's frontends choose a replica."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from fleet.schema import AtLeastASecond, Count, FileModel

MAX_MIGRATIONS = 1000  # a request that moved so often meets no live replica at all

RouterMode = Literal["kv", "round-robin", "random", "least-loaded", "power-of-two"]
Affinity = Literal["soft", "hard", "off"]


class RouterSpec(FileModel):
    """How frontends choose a replica.

    With KV routing soft affinity and a migration limit above 0, because with hard
    affinity a crashed worker gave 7 s of errors, and with both of these none. With
    the other modes no affinity: it would keep sessions in place whatever the mode.
    """

    mode: RouterMode = "kv"
    session_affinity: Affinity = Field(
        default_factory=lambda data: "soft" if data.get("mode") == "kv" else "off"
    )
    session_affinity_ttl_s: AtLeastASecond = Field(default=900.0, alias="session_affinity_ttl")
    migration_limit: Annotated[Count, Field(le=MAX_MIGRATIONS)] = 3
    # What Dynamo reads from `--router-policy-config`: queues, classes, costs. Its own flags for
    # these go away in 1.7. Empty: Dynamo's defaults.
    policy: dict[str, JsonValue] = Field(default_factory=dict)
