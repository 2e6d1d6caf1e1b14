"""Say what one load test does.

The settings travel as one JSON file from whoever starts the generator to the Locust process, so
that nothing about a run hides in an argv or in the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from fleet.errors import ConfigError, Problem
from loadtest.cache.oracle import OracleRules
from loadtest.client.client_options import ClientOptions
from loadtest.play.search import SearchOptions
from loadtest.play.stages import MOST_STAGES, Stage, check_stages, most_level, total_s
from loadtest.prompt.session_options import SessionOptions
from loadtest.replay.formats import Source, parse_source
from loadtest.replay.options import ReplayOptions
from loadtest.results.result_options import ResultOptions
from loadtest.traffic.harness import HarnessOptions
from loadtest.traffic.profiles import profile_path
from loadtest.url_faults import base_url_fault

TRACE_PREFIX = "trace:"
SETTINGS_FILE = "settings.json"
PLAYED_FILE = "played.json"
"""What was played in the end: settings, changed by command line, form, and a run id."""
RUN_ID_MAX = 40
LEAST_SEED, MOST_SEED = -(2**63), 2**63 - 1
"""What the files of a run can hold."""


class LoadSettings(BaseModel):
    """Hold everything a run needs; every token count and time is as sent, after scaling.

    `token_scale` divides all lengths of the traffic and `time_scale` all its gaps, so that a
    laptop can carry the shape of a load that needs a rack.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    targets: dict[str, str] = Field(min_length=1, description="region name: gateway base URL")
    model: str = "kimi-k3"
    tokenizer_dir: Path
    block_size: int = Field(default=128, ge=1)
    traffic: str = "interactive_agent"
    harness: HarnessOptions = HarnessOptions()
    users: int | None = Field(default=None, ge=1)
    sessions_per_minute: float | None = Field(default=None, gt=0)
    stages: tuple[Stage, ...] = Field(default=(), max_length=MOST_STAGES)
    """Load that changes over time, instead of users or sessions_per_minute and duration_s."""
    search: SearchOptions | None = None
    """Find the most users instead of being told a load."""
    duration_s: float = Field(default=60.0, gt=0)
    token_scale: float = Field(default=16.0, gt=0)
    time_scale: float = Field(default=60.0, gt=0)
    seed: int = Field(default=1, ge=LEAST_SEED, le=MOST_SEED)
    out_dir: Path
    gates_file: Path | None = None
    max_context: int = Field(default=1_048_576, ge=1_024)
    """Largest prompt plus answer in tokens; a session that would pass it ends."""
    spawn_per_s: float = Field(default=8.0, gt=0)
    """Users started each second: all at once would measure one burst of cold first prompts."""
    api_key_file: Path | None = None
    """File with the bearer token of the gateway: a path, so that no secret is in this file."""
    oracle: OracleRules = OracleRules()
    results: ResultOptions = ResultOptions()
    client: ClientOptions = ClientOptions()
    session: SessionOptions = SessionOptions()
    run_id: str | None = Field(default=None, pattern=rf"^[A-Za-z0-9._-]{{1,{RUN_ID_MAX}}}$")
    """Salt of all text. Without it each run has its own, so yesterday's cache gives no hits."""

    replay: ReplayOptions = ReplayOptions()

    @field_validator("targets")
    @classmethod
    def _targets_are_urls(cls, targets: dict[str, str]) -> dict[str, str]:
        for region, url in targets.items():
            if fault := base_url_fault(url):
                raise ValueError(f"{region}: {fault}")
        return targets

    @field_validator("stages")
    @classmethod
    def _stages_go_together(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        check_stages(stages)
        return stages

    @model_validator(mode="after")
    def _one_kind_of_load(self) -> LoadSettings:
        loads = (self.users, self.sessions_per_minute, self.stages or None, self.search)
        if sum(load is not None for load in loads) + self.as_recorded != 1:
            raise ValueError(
                "give either users (closed loop), sessions_per_minute (open loop), stages, "
                'search, or replay.arrivals "recorded"'
            )
        if self.as_recorded and not self.traffic.startswith(TRACE_PREFIX):
            raise ValueError(f'replay.arrivals "recorded" needs traffic {TRACE_PREFIX}PATH')
        if self.search is not None and not self.replay.loop:
            raise ValueError("search needs replay.loop: how long it takes nobody knows")
        return self

    @property
    def as_recorded(self) -> bool:
        """Tell whether sessions begin when they began in the recording."""
        return self.replay.arrivals == "recorded"

    @property
    def is_open_loop(self) -> bool:
        """Tell whether sessions begin at a rate, however slowly they are served."""
        by_stages = bool(self.stages) and self.stages[0].users is None
        return self.sessions_per_minute is not None or by_stages or self.as_recorded

    @property
    def planned_s(self) -> float | None:
        """Give the length of the run; None when it ends by itself."""
        if self.search is not None:
            return None
        return total_s(self.stages) if self.stages else self.duration_s

    @property
    def longest_s(self) -> float:
        """Give the time that the run takes at most."""
        if self.search is not None:
            change_s = 60.0 + self.search.most / self.spawn_per_s
            return self.search.longest_s + self.search.most_trials * change_s
        return self.planned_s or self.duration_s

    @property
    def planned_users(self) -> int:
        """Give the most agents that the run means to have; 1 where it does not say."""
        if self.users is not None:
            return self.users
        if self.search is not None:
            return self.search.most
        return 1 if self.is_open_loop else max(1, round(most_level(self.stages)))

    @property
    def trace_source(self) -> Source | None:
        """Name the recordings to replay, None for a profile."""
        if self.traffic.startswith(TRACE_PREFIX):
            return parse_source(self.traffic.removeprefix(TRACE_PREFIX))
        return None


def with_absolute_paths(settings: LoadSettings) -> LoadSettings:
    """Give settings that mean the same files from any folder: the generator runs in another."""
    files = ("tokenizer_dir", "api_key_file", "gates_file", "out_dir")
    found: dict[str, Any] = {
        name: path.absolute() for name in files if (path := getattr(settings, name)) is not None
    }
    return settings.model_copy(update={**found, "traffic": _absolute_traffic(settings)})


def _absolute_traffic(settings: LoadSettings) -> str:
    if (source := settings.trace_source) is not None:
        head = f"{source.format}:" if source.format else ""
        return f"{TRACE_PREFIX}{head}{source.path.absolute()}"
    if (path := profile_path(settings.traffic)) is not None:
        return str(path.absolute())
    return settings.traffic


def write_settings(settings: LoadSettings, name: str = SETTINGS_FILE) -> Path:
    """Write the settings beside the results and return the file."""
    path = settings.out_dir / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(settings.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}. Give a folder that can be written."
        ) from error
    return path


def read_settings(path: Path) -> LoadSettings:
    """Read settings; raises ConfigError that names the file and every wrong field."""
    try:
        return LoadSettings.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Give an existing settings file.") from error
    except ValidationError as error:
        raise _problems(path, error) from error


def change_settings(
    settings: LoadSettings, changes: Mapping[str, Any], origin: str
) -> LoadSettings:
    """Give settings with some fields changed; raises ConfigError that names what is wrong."""
    try:
        return LoadSettings.model_validate(settings.model_dump() | dict(changes))
    except ValidationError as error:
        raise _problems(Path(origin), error) from error


def what_of(fault: ErrorDetails) -> str:
    """Say what is wrong with a field, without pydantic's name for a validator of ours."""
    return fault["msg"].removeprefix("Value error, ")


def _problems(path: Path, error: ValidationError) -> ConfigError:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return ConfigError.of(
        Problem(
            file=str(path),
            line=None,
            path=".".join(str(part) for part in item["loc"]),
            what=what_of(item),
            fix="Correct this field",
        )
        for item in found
    )
