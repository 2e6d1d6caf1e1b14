"""Say what a traffic profile holds: the distributions of one kind of user."""

from __future__ import annotations

import math
import random
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, Strict, model_validator

from fleet.schema import FileModel, Positive, found_text, refuse
from loadtest.prompt.images import Image
from loadtest.prompt.limits import MOST_CALLS
from loadtest.traffic.arrivals import Arrivals

MAX_TOKENS = 2_097_152  # twice the longest context there is
K3_CONTEXT_TOKENS = 1_048_576
MAX_DRAWN = 31_536_000  # a year in seconds; more than that is a unit forgotten
_MAX_COUNT = 100_000  # of turns or steps; the longest session on record has 1,107 steps
_MAX_SIGMA = 5.0  # the widest distribution on record has 2.4
_MAX_VARIANTS = 16  # each is held as text
_MAX_IMAGES = 100  # in one question

_Number = Annotated[float, Strict(), Field(le=MAX_DRAWN)]
_Share = Annotated[float, Strict(), Field(ge=0, le=1)]
_Tokens = Annotated[Positive, Field(le=MAX_TOKENS)]
_Pixels = Annotated[Positive, Field(le=8192)]


class LogNormal(FileModel):
    """Hold a lognormal distribution that is cut at `max`."""

    median: Annotated[_Number, Field(gt=0)]
    sigma: Annotated[float, Strict(), Field(ge=0, le=_MAX_SIGMA)]
    max: Annotated[_Number, Field(gt=0)]

    @model_validator(mode="after")
    def _median_below_max(self) -> Self:
        if self.max < self.median:
            what = f"max {self.max:g} is below the median {self.median:g}"
            raise refuse(what, "Raise max: half of all draws would be cut to it")
        return self

    def draw(self, rng: random.Random) -> float:
        """Draw one value."""
        return min(self.max, self.median * math.exp(self.sigma * rng.gauss(0.0, 1.0)))

    @property
    def low(self) -> float:
        """Give the value that 999 of 1,000 draws pass: 3.09 sigma below the median."""
        return self.median * math.exp(-3.09 * self.sigma)


def _counts(distribution: LogNormal) -> LogNormal:
    if distribution.max > _MAX_COUNT:
        what = f"max {distribution.max:.0f} is no number of turns or steps"
        raise refuse(what, f"Give at most {_MAX_COUNT}")
    return distribution


def _image_counts(distribution: LogNormal) -> LogNormal:
    if distribution.max > _MAX_IMAGES:
        what = f"max {distribution.max:.0f} images in one question"
        raise refuse(what, f"Give at most {_MAX_IMAGES}")
    return distribution


def _lengths(distribution: LogNormal) -> LogNormal:
    if distribution.max > MAX_TOKENS:
        what = f"max {distribution.max:.0f} is longer than any prompt"
        raise refuse(what, f"Give at most {MAX_TOKENS} tokens")
    return distribution


_Counts = Annotated[LogNormal, AfterValidator(_counts)]
_ImageCounts = Annotated[LogNormal, AfterValidator(_image_counts)]
_Lengths = Annotated[LogNormal, AfterValidator(_lengths)]


class ImageSize(FileModel):
    """Hold the size of an image in pixels."""

    width: _Pixels
    height: _Pixels

    @property
    def tokens(self) -> int:
        """Count the tokens that K3 makes of it."""
        return Image(width=self.width, height=self.height, seed=0).tokens

    def shrunk(self, factor: float) -> ImageSize:
        """Give an image of the same shape with `factor` times fewer tokens."""
        side = math.sqrt(factor)
        return ImageSize(
            width=max(1, round(self.width / side)), height=max(1, round(self.height / side))
        )


class Images(FileModel):
    """Say how often a question comes with images, and with which."""

    turn_share: _Share = 0.0
    per_turn: _ImageCounts = LogNormal(median=1, sigma=0, max=1)
    sizes: tuple[ImageSize, ...] = Field(
        default=(ImageSize(width=1280, height=800),), min_length=1, max_length=100
    )


def _parallel(shares: tuple[float, ...]) -> tuple[float, ...]:
    if len(shares) > MOST_CALLS:
        what = f"{len(shares)} shares are of answers with up to {len(shares)} calls"
        raise refuse(what, f"Give {MOST_CALLS} at most: what more calls look like nobody measured")
    if not math.isclose(sum(shares), 1.0, abs_tol=0.001):
        what = f"the shares of 1, 2, 3 ... calls add up to {sum(shares):g}"
        raise refuse(what, "Make them add up to 1")
    return shares


class Resumed(FileModel):
    """Say how often a session comes back with a history that no cache holds any more."""

    share: _Share
    tokens: _Lengths


class Compaction(FileModel):
    """Say when a history is replaced by a summary, and how long that is."""

    at_tokens: _Tokens
    tokens: _Lengths


class Subagents(FileModel):
    """Say how often a step hands work to an agent of its own, and what that one does."""

    share: _Share
    fork_share: _Share = 0.0
    prompt_tokens: _Tokens
    steps: _Counts


def _name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise refuse(
            f"{found_text(name)} is no name of a profile",
            "Use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first",
        )
    return name


class Profile(FileModel):
    """Hold one profile; `profiles/interactive_agent.yaml` says what each key means."""

    name: Annotated[str, AfterValidator(_name)]
    about: Annotated[str, Field(max_length=200)] = ""
    shared_prefix_tokens: _Tokens
    tools_tokens: Annotated[int, Strict(), Field(ge=0, le=MAX_TOKENS)] = 0
    harness_variants: Annotated[Positive, Field(le=_MAX_VARIANTS)] = 1
    shared_is_warm: Annotated[bool, Strict()] = True
    context_tokens: _Tokens = K3_CONTEXT_TOKENS
    private_prompt_tokens: _Lengths
    resumed: Resumed | None = None
    single_turn_share: _Share
    human_turns: _Counts
    first_turn_steps: _Counts
    later_turn_steps: _Counts
    user_tokens: _Lengths
    tool_tokens: _Lengths
    output_tokens: _Lengths
    reasoning_share: _Share
    reasoning_replay: Literal["always", "within_turn", "never"]
    parallel_tool_calls: Annotated[
        tuple[_Share, ...], Field(min_length=1), AfterValidator(_parallel)
    ] = (1.0,)
    tool_call_share: _Share = 0.5
    tool_gap_fixed_s: Annotated[_Number, Field(ge=0)] = 0.0
    tool_gap_s: LogNormal
    human_gap_s: LogNormal
    gap_cap_s: Annotated[_Number, Field(gt=0)] | None = None
    compaction: Compaction | None = None
    subagents: Subagents | None = None
    images: Images = Images()
    cancel_share: _Share = 0.0
    arrivals: Arrivals = Arrivals()
