"""Keep what one request did, one JSON object a line.

The judging half of the load test reads only these files, so a run can be judged again later, on
another machine, without Locust.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import LoadError

REQUESTS_FILE = "requests.jsonl"
GENERATOR_FILE = "generator.json"
FIGURES_FILE = "figures.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Hold one request; times are seconds since the start of the run, None = not known."""

    region: str
    session: str
    turn: int
    kind: str
    sent_s: float
    due_s: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    """None = the server did not report it, which is not zero."""
    attainable_tokens: int
    predicted_prompt_tokens: int
    ttft_s: float | None
    e2e_s: float
    chunks: int
    gap_p50_ms: float | None
    gap_max_ms: float | None
    worker: str | None
    """Who generated; None = the server did not say."""
    status: int
    """HTTP status, 0 when no answer came."""
    error: str | None
    error_detail: str = ""
    prefill_worker: str | None = None
    """Who computed the prompt, when that is another one."""
    ttfo_s: float | None = None
    """Until the first output that is no reasoning."""
    finish: str | None = None
    """Why the server ended the answer."""
    cancelled: bool = False
    """The client hung up on purpose."""
    retries: int = 0
    """How often it was sent again, because a kept connection had gone stale."""
    parent: str | None = None
    """The session that this one is a sub-agent of."""
    stage: str = ""
    """The stage of the run it was sent in, "" in a run without stages."""
    attainable_global_tokens: int | None = None
    """As `attainable_tokens`, if all regions shared one cache."""
    selected_tokens: int | None = None
    """What the replica that computed the prompt could have served from its own cache."""
    best_tokens: int | None = None
    """The most that any replica of the region could have."""
    predicted_exactly: bool = True
    """False when the prompt holds a model's own answers or images, of which tokens are counted."""

    def line(self) -> bytes:
        """Give the record as one line of requests.jsonl."""
        return orjson.dumps(asdict(self)) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Hold what the load generator says about itself (generator.json)."""

    started_at: str
    duration_s: float
    users: int
    sessions_started: int
    sessions_finished: int
    calls_unfinished: int
    """Calls that had no end when the run was over, and so are no records."""
    cpu_share: float
    """CPU seconds of the generator ÷ wall seconds: 1.0 = one core busy."""
    machine_cpu_share: float
    """Busy share of all cores of the machine, 0 to 1."""
    lag_p50_ms: float
    lag_p99_ms: float
    """How late the generator woke up or sent, against when it meant to."""
    gap_histogram: dict[str, list[float]]
    seed: int
    token_scale: float
    time_scale: float
    dataset: str
    versions: dict[str, str]
    stages: list[tuple[str, float]] = field(default_factory=list)
    """Each stage and when it began; none in a run without stages."""
    unwritten: int = 0
    """Records for which there was no room on the disk."""

    def text(self) -> str:
        """Give generator.json."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2).decode() + "\n"


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
            yield Record(**orjson.loads(line))
        except (orjson.JSONDecodeError, TypeError) as error:
            if number == len(lines):
                return
            raise LoadError(
                f"{path}:{number}: no record of a request ({error}). Run the load test again."
            ) from error


def read_generator(path: Path) -> Generator:
    """Read generator.json; raises LoadError when the generator did not get to write it."""
    try:
        document: Any = orjson.loads(path.read_bytes())
        known = {entry.name for entry in fields(Generator)}
        return Generator(**{key: value for key, value in document.items() if key in known})
    except OSError as error:
        raise LoadError(
            f"{path}: {error.strerror}. The load generator was killed before its end: see its log."
        ) from error
    except (orjson.JSONDecodeError, TypeError, AttributeError) as error:
        raise LoadError(f"{path}: not readable ({error}). Run the load test again.") from error
