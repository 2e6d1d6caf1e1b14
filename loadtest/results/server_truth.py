"""Compare what clients measured with what frontends and engines counted.

Every server has its own names for the same two sums: tokens of prompts, and those of them that a
cache served. Here they are read from Prometheus pages, as increments over the run: a counter that
falls was reset by a restart, and has counted from zero since. A page is never added to another
kind's: frontends and engines see the same requests, so each kind is compared by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.parser import text_string_to_metric_families

from fleet.errors import LoadError
from loadtest.results.records import Record

SERVER_FILE = "server.json"
DISAGREEMENT_POINTS = 2.0
"""More between the server's hit rate and ours, in percentage points, is a finding."""
FOREIGN_SHARE = 0.05
"""More prompt tokens than we sent, as a share of ours, are somebody else's: a finding."""

Series = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Name the samples of one kind of server."""

    name: str
    prompt: str
    cached: tuple[str, ...]
    cancelled_prompts: bool = False
    """Whether requests that a client cancelled are in `prompt`, while never in `cached`."""


_SOURCES = (
    # Read off a frontend of Dynamo 1.6.1: both are histograms over requests. Cached tokens come
    # with the usage at an answer's end, which a cancelled one has not; its prompt is counted.
    _Source(
        name="dynamo frontend",
        prompt="dynamo_frontend_input_sequence_tokens_sum",
        cached=("dynamo_frontend_cached_tokens_sum",),
        cancelled_prompts=True,
    ),
    # vLLM docs/design/metrics.md: queries are tokens too; external = what a connector brought.
    _Source(
        name="vllm",
        prompt="vllm:prefix_cache_queries_total",
        cached=("vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total"),
    ),
    # SGLang docs/references/production_metrics.md; one series per `cache_source`.
    _Source(
        name="sglang",
        prompt="sglang:prompt_tokens_total",
        cached=("sglang:cached_tokens_total",),
    ),
)
# Dynamo 1.6.1, prometheus_names.py: what its router chose, and could have chosen.
_SELECTED = "dynamo_component_router_kv_selected_cached_prefix_tokens_total"
_BEST = "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total"
_WANTED = (
    *(name for source in _SOURCES for name in (source.prompt, *source.cached)),
    _SELECTED,
    _BEST,
)


@dataclass(slots=True, kw_only=True)
class Page:
    """Hold what one Prometheus page told during a run."""

    region: str
    url: str
    scrapes: int = 0
    failures: int = 0
    error: str = ""
    """Why it could not be read the last time that it could not."""
    late: bool = False
    """It was not there at the start, so what it counted before is not known."""
    resets: int = 0
    increments: dict[str, float] = field(default_factory=dict)
    """By name of the sample, over all its series."""
    last: Series = field(default_factory=dict)

    def take(self, series: Series) -> None:
        """Add one reading."""
        if self.scrapes:
            for key, value in series.items():
                before = self.last.get(key, 0.0)
                self.resets += value < before
                name = key.partition("{")[0]
                grown = value - before if value >= before else value
                self.increments[name] = self.increments.get(name, 0.0) + grown
        else:
            self.late = self.failures > 0
            self.increments = dict.fromkeys((key.partition("{")[0] for key in series), 0.0)
        # A series that is left out once keeps its value, else it would count twice.
        self.last |= series
        self.scrapes += 1

    def fail(self, error: str) -> None:
        """Note a reading that failed."""
        self.failures += 1
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHit:
    """Hold the hit rate that one kind of server counted in a region, beside ours."""

    region: str
    source: str
    prompt_tokens: int
    cached_tokens: int
    hit: float | None
    client_hit: float | None
    difference_points: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTruth:
    """Hold the cross-check with servers.

    `worst_points`: the largest difference of hit rates. `router_regret`: selected ÷ best, as
    Dynamo's own router counted. Pages that could not be read are named, with the reason.
    """

    pages: int
    pages_read: int
    hits: tuple[ServerHit, ...]
    worst_points: float | None
    router_regret: float | None
    unreachable: tuple[str, ...]
    findings: tuple[str, ...]


def read_series(text: str) -> Series:
    """Read the samples that matter, by name and labels; raises ValueError for what is no page.

    Only their lines are parsed: a page has thousands, and parsing them all would hold up the
    streams that this process times.
    """
    if text.lstrip()[:1] == "<":
        raise ValueError("an HTML page")
    lines = [line for line in text.splitlines() if line.startswith(_WANTED)]
    series: Series = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if sample.name in _WANTED:
                labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
                series[f"{sample.name}{{{labels}}}"] = float(sample.value)
    return series


def write_pages(path: Path, pages: Iterable[Page]) -> None:
    """Keep what was scraped beside the records."""
    kept = [{key: value for key, value in asdict(page).items() if key != "last"} for page in pages]
    try:
        path.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}. Free some space.") from error


def read_pages(path: Path) -> tuple[Page, ...]:
    """Read what was scraped; nothing when no page was named, or the run was killed."""
    try:
        document: Any = orjson.loads(path.read_bytes())
        return tuple(Page(**entry) for entry in document)
    except FileNotFoundError:
        return ()
    except (OSError, orjson.JSONDecodeError, TypeError) as error:
        raise LoadError(f"{path}: not readable ({error}). Remove it, or run again.") from error


def cross_check(pages: Sequence[Page], records: Iterable[Record]) -> ServerTruth:
    """Compare pages with records; without pages nothing is known, and nothing is found."""
    ours = _client_sums(records)
    hits = tuple(_hits(pages, ours))
    unreachable = tuple(f"{page.url}: {page.error}" for page in pages if not page.scrapes)
    points = [hit.difference_points for hit in hits if hit.difference_points is not None]
    return ServerTruth(
        pages=len(pages),
        pages_read=sum(page.scrapes > 0 for page in pages),
        hits=hits,
        worst_points=max(points, default=None),
        router_regret=_share(_sum(pages, _SELECTED), _sum(pages, _BEST)),
        unreachable=unreachable,
        findings=tuple(_findings(pages, hits, ours)),
    )


@dataclass(slots=True)
class _Sums:
    """Hold the tokens of what one region was sent."""

    prompt: int = 0
    cached: int = 0
    cancelled: int = 0
    """Of the prompts that we hung up on; not in `prompt`."""


def _client_sums(records: Iterable[Record]) -> Mapping[str, _Sums]:
    """Add up the requests that reported both prompt and cached tokens, by region."""
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    for record in records:
        found = sums[record.region]
        if record.error is None and record.cached_tokens is not None:
            found.prompt += record.prompt_tokens or 0
            found.cached += record.cached_tokens
        elif record.cancelled:
            found.cancelled += record.predicted_prompt_tokens
    return sums


def _hits(pages: Sequence[Page], ours: Mapping[str, _Sums]) -> Iterable[ServerHit]:
    for region in sorted({page.region for page in pages}):
        here = [page for page in pages if page.region == region]
        sent = ours.get(region, _Sums())
        client = _share(sent.cached, sent.prompt)
        for source in _SOURCES:
            prompt = _sum(here, source.prompt)
            if source.cancelled_prompts:
                prompt = max(0.0, prompt - sent.cancelled)
            if not prompt:
                continue
            cached = sum(_sum(here, name) for name in source.cached)
            hit = _share(cached, prompt)
            apart = None if hit is None or client is None else abs(hit - client) * 100
            yield ServerHit(
                region=region,
                source=source.name,
                prompt_tokens=int(prompt),
                cached_tokens=int(cached),
                hit=hit,
                client_hit=client,
                difference_points=None if apart is None else round(apart, 3),
            )


def _findings(
    pages: Sequence[Page], hits: Sequence[ServerHit], ours: Mapping[str, _Sums]
) -> Iterable[str]:
    for page in pages:
        if not page.scrapes:
            yield f"{page.url}: not reachable ({page.error}), so nothing there was cross-checked"
        elif not page.increments:
            yield f"{page.url}: none of the counters of Dynamo, vLLM or SGLang is there"
        elif page.late:
            yield f"{page.url}: reachable only after the start, so its sums are not complete"
    for hit in hits:
        if hit.difference_points is not None and hit.difference_points > DISAGREEMENT_POINTS:
            yield (
                f"{hit.region}: {hit.source} counted {hit.hit:.1%} of prompt tokens as cached, "
                f"the answers reported {hit.client_hit:.1%}: {hit.difference_points:.1f} points "
                "apart"
            )
        sent = ours.get(hit.region, _Sums()).prompt
        if sent and hit.prompt_tokens > sent * (1 + FOREIGN_SHARE):
            yield (
                f"{hit.region}: {hit.source} saw {hit.prompt_tokens:,} prompt tokens, and "
                f"{sent:,} are of answered requests of this run: somebody else sends too, or many "
                "requests failed"
            )


def _sum(pages: Iterable[Page], name: str) -> float:
    return sum(page.increments.get(name, 0.0) for page in pages)


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None
