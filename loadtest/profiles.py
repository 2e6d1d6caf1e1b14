"""Read a traffic profile: the distributions of one kind of user."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fleet.errors import ConfigError, Problem
from fleet.schema import FileModel, suggestion, validate
from fleet.yaml_document import read_document

PROFILES_DIR = Path(__file__).parent / "profiles"

_Share = Annotated[float, Field(ge=0, le=1)]
_Tokens = Annotated[int, Field(ge=1)]


class LogNormal(FileModel):
    """Hold a lognormal distribution that is cut at `max`."""

    median: Annotated[float, Field(gt=0)]
    sigma: Annotated[float, Field(ge=0)]
    max: Annotated[float, Field(gt=0)]

    def draw(self, rng: random.Random) -> float:
        """Draw one value."""
        return min(self.max, self.median * math.exp(self.sigma * rng.gauss(0.0, 1.0)))


class Profile(FileModel):
    """Hold one profile; the file says what each number means and where it comes from."""

    name: str
    shared_prefix_tokens: _Tokens
    harness_variants: _Tokens
    private_prompt_tokens: LogNormal
    resumed_share: _Share
    resumed_tokens: LogNormal
    single_turn_share: _Share
    human_turns: LogNormal
    first_turn_steps: LogNormal
    later_turn_steps: LogNormal
    user_tokens: LogNormal
    tool_tokens: LogNormal
    output_tokens: LogNormal
    reasoning_share: _Share
    tool_gap_fixed_s: Annotated[float, Field(ge=0)]
    tool_gap_s: LogNormal
    human_gap_s: LogNormal
    compaction_at_tokens: _Tokens
    compaction_tokens: LogNormal
    subagent_share: _Share
    subagent_prompt_tokens: _Tokens
    subagent_steps: LogNormal


def known_profiles() -> list[str]:
    """Name the profiles that come with k3fleet."""
    return sorted(path.stem for path in PROFILES_DIR.glob("*.yaml"))


def load_profile(name: str) -> Profile:
    """Read a profile by name; raises ConfigError with the known names or all faults of the file."""
    known = known_profiles()
    if name not in known:
        fix = f"{suggestion(name, known)}, or trace:PATH for a recorded session"
        raise ConfigError(f"traffic: {name!r} is no profile. {fix}.")
    profile, problems = validate(Profile, read_document(PROFILES_DIR / f"{name}.yaml"))
    return _checked(profile, problems)


def _checked(profile: Profile | None, problems: list[Problem]) -> Profile:
    if profile is None:
        raise ConfigError.of(problems)
    return profile
