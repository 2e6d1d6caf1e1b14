"""Say how a session talks to the server: which API, which headers, whose history."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")]


class SessionOptions(BaseModel):
    """Hold what is the same for all sessions of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: Literal["openai", "anthropic"] = "openai"
    """Chat completions, or Anthropic's Messages (in Dynamo: --enable-anthropic-api)."""
    history: Literal["scripted", "live"] = "scripted"
    """What the next call carries as the last answer: our text, or what the server said."""
    session_headers: tuple[HeaderName, ...] = ("X-Dynamo-Session-ID", "X-Session-Affinity")
    """Headers with the session's name, by which routers keep it where its cache is."""
    parent_headers: tuple[HeaderName, ...] = ("X-Dynamo-Parent-Session-ID",)
    """Headers of a sub-agent with the name of the session that started it."""
    limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """What chat completions call the longest answer; old servers know only max_tokens."""
    reasoning_effort: Literal["low", "high", "max"] | None = None
    """K3's own default is max. It is part of the prompt: another one finds no cache."""

    def headers(self, session: str, parent: str | None) -> dict[str, str]:
        """Name the session, and its parent if it has one."""
        named = dict.fromkeys(self.session_headers, session)
        return named if parent is None else {**named, **dict.fromkeys(self.parent_headers, parent)}
