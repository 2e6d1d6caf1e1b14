"""Read what `report.json` holds, however much of it is there.

A run can stop anywhere: before traffic, before the racks exist, halfway
through a write. The page must then say what is missing instead of failing, so
this reader is the tolerant kind: a value that is absent or makes no sense is
None or empty, a section in which nothing makes sense is named in `unreadable`.
It is the one place that meets raw text, and makes it harmless for a terminal
and for UTF-8; escaping for HTML is the renderer's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_TEXT = 2_000
LARGEST = 1e15  # more than any count or time of a rehearsal; keeps sums finite
# Format characters that reorder or hide what follows them (Unicode TR36 §2.1, TR9 §2).
BIDI_CONTROLS = frozenset(
    "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def clean_text(value: object) -> str:
    """Return `value` as one printable line: no control, bidi or surrogate characters."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    text = " ".join(text[:MAX_TEXT].split())
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        char if char.isprintable() and char not in BIDI_CONTROLS else "\ufffd" for char in text
    )


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None  # NaN compares false


def _tri_state(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _items(value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return ()
    return value


def _mappings(value: object) -> Sequence[object]:
    return [item for item in _items(value) if isinstance(item, Mapping | BaseModel)]


def _pairs(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {clean_text(key): clean_text(item) for key, item in value.items()}


def _mapping(value: object) -> object:
    return value if isinstance(value, Mapping | BaseModel) else {}


Text = Annotated[str, BeforeValidator(clean_text)]
Number = Annotated[float | None, BeforeValidator(_finite)]
Flag = Annotated[bool, BeforeValidator(lambda value: value is True)]
Known = Annotated[bool | None, BeforeValidator(_tri_state)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_items)]
Numbers = Annotated[tuple[Number, ...], BeforeValidator(_items)]
Pairs = Annotated[dict[str, str], BeforeValidator(_pairs)]
Rows = BeforeValidator(_mappings)
Part = BeforeValidator(_mapping)


class Section(BaseModel):
    """A part of the report: frozen, all of it optional, keys of later versions ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Quantiles(Section):
    p50: Number = None
    p95: Number = None
    p99: Number = None


class Histogram(Section):
    """Counts per bucket; `count` may be one longer than `le_ms`: the values above the last."""

    le_ms: Numbers = ()
    count: Numbers = ()


class Gaps(Quantiles):
    histogram: Annotated[Histogram, Part] = Histogram()


class Hit(Section):
    achieved: Number = None
    attainable: Number = None
    ratio: Number = None
    reported_share: Number = None


class Bucket(Section):
    bucket: Text = ""
    n: Number = None
    p50: Number = None
    p95: Number = None


class RegionLoad(Section):
    name: Text = ""
    requests: Number = None
    errors: Number = None
    hit: Annotated[Hit, Part] = Hit()
    ttft_ms: Annotated[Quantiles, Part] = Quantiles()


class ReplicaLoad(Section):
    name: Text = ""
    region: Text = ""
    role: Text = ""
    requests: Number = None
    share: Number = None
    prompt_tokens: Number = None
    cached_tokens: Number = None
    hit: Number = None
    registered: Known = None


class Slice(Section):
    t_s: Number = None
    region: Text = ""
    requests: Number = None
    errors: Number = None
    prompt_tokens: Number = None
    cached_tokens: Number = None
    attainable_tokens: Number = None
    output_tokens: Number = None
    ttft_p95_ms: Number = None


class Generator(Section):
    cpu_share: Number = None
    machine_cpu_share: Number = None
    lag_p50_ms: Number = None
    lag_p99_ms: Number = None
    users: Number = None
    sessions_started: Number = None
    limited_by_machine: Flag = False


class LatencyRow(Section):
    metric: Text = ""
    region: Text = ""
    bucket: Text = ""
    n: Number = None
    failures: Number = None
    p50_ms: Number = None
    p95_ms: Number = None
    p99_ms: Number = None
    adjusted_p99_ms: Number = None


class LatencyTable(Section):
    by: Text = ""
    rows: Annotated[tuple[LatencyRow, ...], Rows] = ()


class Latency(Section):
    tables: Annotated[tuple[LatencyTable, ...], Rows] = ()


class Goodput(Section):
    share: Number = None
    requests_per_s: Number = None


class Router(Section):
    regret: Number = None
    requests: Number = None


class Locality(Section):
    router: Annotated[Router, Part] = Router()


class PerGpu(Section):
    gpus: Number = None
    output_tokens_per_s: Number = None


class ServerTruth(Section):
    pages_read: Number = None
    worst_points: Number = None


class Load(Section):
    window_s: Number = None
    requests: Number = None
    errors: Number = None
    error_rate: Number = None
    errors_by_class: Annotated[
        dict[Text, Number], BeforeValidator(lambda value: value if isinstance(value, dict) else {})
    ] = Field(default_factory=dict)
    requests_per_s: Number = None
    prompt_tokens_per_s: Number = None
    output_tokens_per_s: Number = None
    hit: Annotated[Hit, Part] = Hit()
    ttft_ms: Annotated[Quantiles, Part] = Quantiles()
    e2e_ms: Annotated[Quantiles, Part] = Quantiles()
    tpot_ms: Annotated[Quantiles, Part] = Quantiles()
    gap_ms: Annotated[Gaps, Part] = Gaps()
    ttft_by_context: Annotated[tuple[Bucket, ...], Rows] = ()
    ttft_by_turn: Annotated[tuple[Bucket, ...], Rows] = ()
    regions: Annotated[tuple[RegionLoad, ...], Rows] = ()
    replicas: Annotated[tuple[ReplicaLoad, ...], Rows] = ()
    timeline: Annotated[tuple[Slice, ...], Rows] = ()
    generator: Annotated[Generator, Part] = Generator()
    latency: Annotated[Latency, Part] = Latency()
    goodput: Annotated[Goodput, Part] = Goodput()
    locality: Annotated[Locality, Part] = Locality()
    per_gpu: Annotated[PerGpu, Part] = PerGpu()
    server: Annotated[ServerTruth, Part] = ServerTruth()


class StageLoad(Section):
    name: Text = ""
    from_s: Number = None
    to_s: Number = None
    judged: Flag = False
    requests: Number = None
    errors: Number = None
    requests_per_s: Number = None
    ttft_ms: Annotated[Quantiles, Part] = Quantiles()


class Gate(Section):
    id: Text = ""
    title: Text = ""
    kind: Text = ""
    op: Text = ""
    limit: Number = None
    value: Number = None
    status: Text = ""
    why: Text = ""


class Event(Section):
    t_s: Number = None
    region: Text = ""
    replica: Text = ""
    what: Text = ""
    detail: Text = ""


class Machine(Section):
    cores: Number = None
    memory_gib: Number = None
    peak_memory_gib: Number = None


def _verdict(value: object) -> object:
    return value if value in ("go", "no-go", "invalid") else "unknown"


class LoadReport(Section):
    """Everything that one load test found; a rehearsal knows more and adds it."""

    k3fleet: Text = ""
    fleet: Text = ""
    verdict: Annotated[Literal["go", "no-go", "invalid", "unknown"], BeforeValidator(_verdict)] = (
        "unknown"
    )
    started_at: Text = ""
    command: Texts = ()
    gate_set: Text = ""
    """The name, or the file, of the gates that judged."""
    notes: Texts = ()
    real: Texts = ()
    mocked: Texts = ()
    unknown: Texts = ()
    traffic: Pairs = Field(default_factory=dict)
    load: Annotated[Load, Part] = Load()
    stages: Annotated[tuple[StageLoad, ...], Rows] = ()
    """Of a run whose load changed; then `load` is of those that are judged."""
    gates: Annotated[tuple[Gate, ...], Rows] = ()
    events: Annotated[tuple[Event, ...], Rows] = ()
    machine: Annotated[Machine, Part] = Machine()
    unreadable: tuple[str, ...] = ()

    @property
    def run_s(self) -> float:
        """Give the length of the whole run, of which `load.window_s` may be a part."""
        return max(self.load.window_s or 0.0, *(stage.to_s or 0.0 for stage in self.stages), 0.0)

    @property
    def region_names(self) -> tuple[str, ...]:
        """Name the regions in the order in which they are drawn, each once."""
        names = [region.name for region in self.load.regions]
        names += [part.region for part in self.load.timeline]
        return tuple(dict.fromkeys(name for name in names if name))


ReportT = TypeVar("ReportT", bound=LoadReport)


def read_as(kind: type[ReportT], raw: Mapping[str, Any] | ReportT) -> ReportT:
    """Return `raw` as a report; sections in which nothing could be read are named."""
    if isinstance(raw, kind):
        return raw
    assert isinstance(raw, Mapping)  # noqa: S101  the other half of the type above
    known = {key: raw[key] for key in kind.model_fields if key in raw and key != "unreadable"}
    report, nothing = kind.model_validate(known), kind()
    unreadable = [
        key for key in known if raw[key] and getattr(report, key) == getattr(nothing, key)
    ]
    return report.model_copy(update={"unreadable": tuple(unreadable)})


def read_load_report(raw: Mapping[str, Any] | LoadReport) -> LoadReport:
    """Return the report of a load test."""
    return read_as(LoadReport, raw)
