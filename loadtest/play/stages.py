"""Read the shape of a load over time: warm-up, ramp, soak, burst, drain.

A shape file holds stages in order. Each has a level, the same from its start to its end or
changing in a straight line: agents at work (closed loop), or sessions begun per minute (open
loop). Everything that follows from it is computed here, from the time since the start alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from fleet.errors import ConfigError, Problem
from fleet.schema import FileModel, Seconds, found_text, refuse, validate
from fleet.units import format_duration
from fleet.yaml_document import Document, read_document

MOST_STAGES = 100
_START = "Start with `stages:`; see docs/web-ui.md"
_MOST_USERS = 1_000_000
_MOST_PER_MINUTE = 1_000_000.0
_SHOWN = 60
_TEXT = re.compile(
    r"(?P<name>\S+)\s+(?P<duration>\S+)\s+(?P<start>[0-9.]+?)(?:\.\.(?P<end>[0-9.]+))?"
    r"(?P<per_minute>/min)?"
)


class Users(FileModel):
    """Hold how many agents are at work at the start and at the end of a stage."""

    start: Annotated[int, Field(ge=0, le=_MOST_USERS)]
    end: Annotated[int, Field(ge=0, le=_MOST_USERS)]


class SessionsPerMinute(FileModel):
    """Hold how many sessions begin each minute at the start and at the end of a stage."""

    start: Annotated[float, Field(ge=0, le=_MOST_PER_MINUTE)]
    end: Annotated[float, Field(ge=0, le=_MOST_PER_MINUTE)]


def _level(value: object) -> object:
    """Let one number stand for a level that stays."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"start": value, "end": value}
    if value is not None and not isinstance(value, dict | FileModel):
        raise refuse(
            f"{found_text(value)} is no number",
            "Write a number, or `{start: 4, end: 64}` for a ramp",
        )
    return value


class Stage(FileModel):
    """Hold one stage of a shape."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
    duration_s: Annotated[Seconds, Field(alias="duration")]
    users: Annotated[Users | None, BeforeValidator(_level)] = None
    sessions_per_minute: Annotated[SessionsPerMinute | None, BeforeValidator(_level)] = None

    @model_validator(mode="after")
    def _has_one_level(self) -> Stage:
        if (self.users is None) == (self.sessions_per_minute is None):
            raise refuse(
                "a stage has either users or sessions_per_minute",
                "Write `users: 64`, or `users: {start: 4, end: 64}` for a ramp",
            )
        return self

    @property
    def level(self) -> tuple[float, float]:
        """Give the level at the start and at the end."""
        level = self.users or self.sessions_per_minute
        return (0.0, 0.0) if level is None else (float(level.start), float(level.end))


class _ShapeFile(FileModel):
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=MOST_STAGES)

    @model_validator(mode="after")
    def _go_together(self) -> _ShapeFile:
        check_stages(self.stages)
        return self


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse stages that make no one load; raises what pydantic reports with its path."""
    if len({stage.users is None for stage in stages}) > 1:
        raise refuse(
            "some stages have users and some sessions_per_minute", "Use one of them in all stages"
        )
    names = [stage.name for stage in stages]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise refuse(
            f"the stage name {twice[0]!r} is used twice",
            "Give each its own name, such as soak-2, so that figures can be told apart",
        )
    if stages and not any(max(stage.level) for stage in stages):
        raise refuse("no stage has any load", "Give at least one stage a level above 0")


def load_stages(path: Path) -> tuple[Stage, ...]:
    """Read a shape file; raises ConfigError with every fault of it."""
    return _checked(read_document(path, start=_START))


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read stages from one line, as in `warm-up 60s 4; ramp 5m 4..64; soak 20m 64`.

    A rate of sessions ends in `/min`. Raises ConfigError.
    """
    items: list[dict[str, object]] = []
    problems: list[Problem] = []
    for number, part in enumerate(text.split(";")[: MOST_STAGES + 1]):
        match = _TEXT.fullmatch(part.strip())
        if match is None:
            shown = part.strip()[:_SHOWN]
            fix = "Write `name duration level`, for example `ramp 5m 4..64`, or 10..60/min"
            problems.append(_problem(number, f"{shown!r} is no stage", fix))
            continue
        try:
            level = {key: _number(match[key] or match["start"]) for key in ("start", "end")}
        except ValueError:
            fix = "Write for example 64, or 4..64"
            problems.append(_problem(number, f"{match['start'][:_SHOWN]!r} is no level", fix))
            continue
        kind = "sessions_per_minute" if match["per_minute"] else "users"
        items.append({"name": match["name"], "duration": match["duration"], kind: level})
    document = Document(
        file="stages",
        data={"stages": items},
        lines={},
        problems=tuple(problems),
        broken=frozenset({()} if problems else ()),
    )
    return _checked(document)


def stages_text(stages: Sequence[Stage]) -> str:
    """Write stages as `parse_stages` reads them."""
    return "; ".join(_stage_text(stage) for stage in stages)


def total_s(stages: Sequence[Stage]) -> float:
    """Give the time that all stages take."""
    return math.fsum(stage.duration_s for stage in stages)


def ends_s(stages: Sequence[Stage]) -> Iterator[tuple[Stage, float]]:
    """Give each stage with the time at which it ends."""
    end_s = 0.0
    for stage in stages:
        end_s += stage.duration_s
        yield stage, end_s


def stage_at(stages: Sequence[Stage], at_s: float) -> Stage | None:
    """Tell which stage is on; None when all are over."""
    return next((stage for stage, end_s in ends_s(stages) if at_s < end_s), None)


def level_at(stages: Sequence[Stage], at_s: float) -> float | None:
    """Tell the users, or the sessions per minute, at a time; None when all stages are over."""
    for stage, end_s in ends_s(stages):
        if at_s < end_s:
            start, end = stage.level
            done = 1 - (end_s - max(0.0, at_s)) / stage.duration_s
            return start + (end - start) * done
    return None


def most_level(stages: Sequence[Stage]) -> float:
    """Give the highest level of all stages."""
    return max((max(stage.level) for stage in stages), default=0.0)


def time_of(stages: Sequence[Stage], sessions: float) -> float | None:
    """Tell when that many sessions should have begun, by the rates of an open loop.

    It turns arrivals at one a unit of time into arrivals at the rate of the stages, whatever their
    distribution. None: the stages end before.
    """
    begun_s, left = 0.0, sessions
    for stage in stages:
        start, end = (per_minute / 60 for per_minute in stage.level)
        area = (start + end) / 2 * stage.duration_s
        if left < area:
            slope = (end - start) / stage.duration_s
            # The root of start*t + slope/2*t^2 = left, in the form that is exact for slope 0 too.
            root = math.sqrt(max(0.0, start * start + 2 * slope * left))
            return begun_s + (2 * left / (start + root) if left else 0.0)
        left -= area
        begun_s += stage.duration_s
    return None


def _checked(document: Document) -> tuple[Stage, ...]:
    file, problems = validate(_ShapeFile, document)
    if file is None:
        raise ConfigError.of(problems)
    return file.stages


def _problem(number: int, what: str, fix: str) -> Problem:
    return Problem(file="stages", line=None, path=f"stages[{number}]", what=what, fix=fix)


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)


def _stage_text(stage: Stage) -> str:
    start, end = stage.level
    level = f"{start:g}" if start == end else f"{start:g}..{end:g}"
    unit = "" if stage.users is not None else "/min"
    return f"{stage.name} {format_duration(stage.duration_s)} {level}{unit}"
