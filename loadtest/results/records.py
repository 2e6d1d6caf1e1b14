"""Keep what one request did, one JSON object a line.

The judging half of the load test reads only these files, so a run can be judged again later, on
another machine, without Locust.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import Field, TypeAdapter, ValidationError, with_config

from fleet.errors import LoadError
from loadtest.results.file_types import (
    KNOWN_ONLY,
    STRICT,
    Columns,
    Count,
    Factor,
    Moment,
    Share,
    Span,
    SpanMs,
    Timestamp,
    Tokens,
    fault_of,
    is_cut,
)

REQUESTS_FILE = "requests.jsonl"
GENERATOR_FILE = "generator.json"
FIGURES_FILE = "figures.json"


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Hold one request; times are seconds since the start of the run, None = not known."""

    region: str
    session: str
    turn: Count
    kind: str
    sent_s: Moment
    due_s: Moment | None
    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    cached_tokens: Tokens | None
    """None = the server did not report it, which is not zero."""
    attainable_tokens: Tokens
    predicted_prompt_tokens: Tokens
    ttft_s: Span | None
    e2e_s: Span
    chunks: Count
    gap_p50_ms: SpanMs | None
    gap_max_ms: SpanMs | None
    worker: str | None
    """Who generated; None = the server did not say."""
    status: Count
    """HTTP status, 0 when no answer came."""
    error: str | None
    error_detail: str = ""
    prefill_worker: str | None = None
    """Who computed the prompt, when that is another one."""
    ttfo_s: Span | None = None
    """Until the first output that is no reasoning."""
    finish: str | None = None
    """Why the server ended the answer."""
    cancelled: bool = False
    """The client hung up on purpose."""
    retries: Count = 0
    """How often it was sent again, because a kept connection had gone stale."""
    parent: str | None = None
    """The session that this one is a sub-agent of."""
    stage: str = ""
    """The stage of the run it was sent in, "" in a run without stages."""
    attainable_global_tokens: Tokens | None = None
    """As `attainable_tokens`, if all regions shared one cache."""
    selected_tokens: Tokens | None = None
    """What the replica that computed the prompt could have served from its own cache."""
    best_tokens: Tokens | None = None
    """The most that any replica of the region could have."""
    predicted_exactly: bool = True
    """False when the prompt holds a model's own answers or images, of which tokens are counted."""

    def line(self) -> bytes:
        """Give the record as one line of requests.jsonl."""
        return orjson.dumps(asdict(self)) + b"\n"


@with_config(KNOWN_ONLY)
@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Hold what the load generator says about itself (generator.json)."""

    started_at: Timestamp
    duration_s: Annotated[Span, Field(gt=0)]
    users: Count
    sessions_started: Count
    sessions_finished: Count
    calls_unfinished: Count
    """Calls that had no end when the run was over, and so are no records."""
    cpu_share: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """CPU seconds of the generator ÷ wall seconds: 1.0 = one core busy."""
    machine_cpu_share: Share
    """Busy share of all cores of the machine, 0 to 1."""
    lag_p50_ms: SpanMs
    lag_p99_ms: SpanMs
    """How late the generator woke up or sent, against when it meant to."""
    gap_histogram: Columns
    seed: int
    token_scale: Factor
    time_scale: Factor
    dataset: str
    versions: dict[str, str]
    stages: list[tuple[str, Moment]] = field(default_factory=list)
    """Each stage and when it began; none in a run without stages."""
    unwritten: Count = 0
    """Records for which there was no room on the disk."""

    def text(self) -> str:
        """Give generator.json."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2).decode() + "\n"


_RECORD = TypeAdapter(Record)
_GENERATOR = TypeAdapter(Generator)


def read_records(path: Path) -> Iterator[Record]:
    """Read requests.jsonl; a last line cut by a kill is left out, other damage is a LoadError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise LoadError(
            f"{path}: {error.strerror}. Run the load test first, or see its log."
        ) from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            yield _RECORD.validate_json(line)
        except ValidationError as error:
            if number == len(lines) and is_cut(error):
                return
            raise LoadError(
                f"{path}:{number}: {fault_of(error)}, so this is no record of a request. "
                "Run the load test again."
            ) from error


def read_generator(path: Path) -> Generator:
    """Read generator.json; raises LoadError when the generator did not get to write it."""
    try:
        return _GENERATOR.validate_json(path.read_bytes())
    except OSError as error:
        raise LoadError(
            f"{path}: {error.strerror}. The load generator was killed before its end: see its log."
        ) from error
    except ValidationError as error:
        raise LoadError(
            f"{path}: not readable ({fault_of(error)}). Run the load test again."
        ) from error
