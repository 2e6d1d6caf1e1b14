"""What a rehearsal is asked, what it takes from its surroundings, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.state import LabState
from lab.steps import StepProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """What traffic to send, and how."""

    traffic: str = "interactive_agent"
    users: int | None = None
    sessions_per_minute: float | None = None
    duration_s: float = 60.0
    token_scale: int = 16
    time_scale: float = 60.0
    seed: int = 1
    tokenizer_dir: Path | None = None
    gates: str = "rehearsal"
    web_port: int | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a rehearsal takes from the process it runs in."""

    work_dir: Path
    cache_dir: Path
    environ: Mapping[str, str]
    command: tuple[str, ...]
    progress: StepProgress
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What came out."""

    report: Mapping[str, Any]
    folder: Path
    lab: LabState | None  # when it was kept

    @property
    def verdict(self) -> str:
        """`go`, `no-go` or `invalid`."""
        return str(self.report["verdict"])
