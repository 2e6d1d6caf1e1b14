"""Say how recorded sessions are read and played."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_Share = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)


class ReplayOptions(BaseModel):
    """Hold what a replay may change about its recordings; times are those of the recording."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    idle_cap_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Longest pause before a call, in seconds of the recording (AgentX: 300)."""
    pauses: bool = True
    """Keep the recorded pauses; without them each call follows the answer before at once."""
    start_from: float = _Share
    start_to: float = _Share
    """Start each session at a share of its time, drawn between the two (AgentX: 0.25 and 0.75).
    What was before is the history of its first prompt: a resume that no cache has."""
    arrivals: Literal["asked", "recorded"] = "asked"
    """"recorded": sessions begin when they began in the recording (open loop), instead of users,
    sessions_per_minute, stages or search."""
    loop: bool = True
    """Play the recordings again when all were played, with other words; else stop."""
    max_sessions: int | None = Field(default=None, ge=1)
    """Take that many sessions of the recordings, the first ones."""
    subagent_times: Literal["auto", "relative", "absolute"] = "auto"
    """What a sub-agent's times count from in kv-cache-tester's files: its own start, as published,
    or the session's, as in SemiAnalysis' copies."""
    sessions: Literal["chains", "requests"] = "chains"
    """How requests that name no session become sessions: by what they share, or one each."""
    tag_tokens: int = Field(default=0, ge=0, le=1_000)
    """Tokens of a chat template per message that recorded lengths contain, where a recording has
    only lengths: they are left out of the text, since sending it adds them again."""
    block_size: int | None = Field(default=None, ge=1, le=65_536)
    """Tokens of a block id, for files that do not say it; else the format's own (Mooncake: 512)."""

    @model_validator(mode="after")
    def _start_is_a_range(self) -> Self:
        if self.start_from > self.start_to:
            raise ValueError(f"start_from {self.start_from} is above start_to {self.start_to}")
        return self
