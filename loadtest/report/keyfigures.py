"""Choose the few numbers that a reader should see first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loadtest.report.document import LoadReport
from loadtest.report.wording import gates_about, milliseconds, number, percent, ratio

SETTING_WORD = {
    "profile": "traffic profile",
    "users": "users",
    "sessions_per_minute": "sessions per minute",
    "duration_s": "duration asked, s",
    "sent_s": "duration sent, s",
    "token_scale": "token scale (lengths divided by)",
    "time_scale": "time scale (pauses divided by)",
    "seed": "seed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """A number, what it is, and the line below it."""

    name: str
    value: str
    below: str
    status: str = ""


def traffic_figures(report: LoadReport) -> tuple[KeyFigure, ...]:
    """Return the cards of the page, the headline figure first."""
    load, hit = report.load, report.load.hit
    return (
        KeyFigure(
            name="achieved ÷ attainable cache hit",
            value=ratio(hit.ratio),
            below=f"{percent(hit.achieved)} achieved, {percent(hit.attainable)} attainable",
            status=gate_status(report, "ratio"),
        ),
        KeyFigure(
            name="requests",
            value=number(load.requests),
            below=f"{number(load.errors)} errors, {percent(load.error_rate)}",
            status=gate_status(report, "error", "errors"),
        ),
        KeyFigure(
            name="time to first token, p95",
            value=milliseconds(load.ttft_ms.p95),
            below=f"p50 {milliseconds(load.ttft_ms.p50)}, p99 {milliseconds(load.ttft_ms.p99)}",
        ),
        KeyFigure(
            name="gap between chunks, p99",
            value=milliseconds(load.gap_ms.p99),
            below=f"p50 {milliseconds(load.gap_ms.p50)}",
        ),
        KeyFigure(
            name="prompt tokens per second",
            value=number(load.prompt_tokens_per_s),
            below=f"{number(load.output_tokens_per_s)} output/s, "
            f"{number(load.requests_per_s)} requests/s",
        ),
    )


def load_figures(report: LoadReport) -> tuple[KeyFigure, ...]:
    """Return the cards of a load test: the traffic's, then what else was measured."""
    load = report.load
    more = (
        (load.goodput.share, KeyFigure(
            name="goodput",
            value=percent(load.goodput.share),
            below=f"{number(load.goodput.requests_per_s)} good requests/s",
            status=gate_status(report, "goodput"),
        )),
        (load.locality.router.regret, KeyFigure(
            name="prefix on the chosen replica ÷ longest of any",
            value=ratio(load.locality.router.regret),
            below=f"{number(load.locality.router.requests)} requests say who answered",
            status=gate_status(report, "router"),
        )),
        (load.per_gpu.output_tokens_per_s, KeyFigure(
            name="output tokens per second and GPU",
            value=number(load.per_gpu.output_tokens_per_s),
            below=f"{number(load.per_gpu.gpus)} GPUs serve",
            status=gate_status(report, "gpu"),
        )),
        (load.server.worst_points, KeyFigure(
            name="cache hit: servers against answers",
            value=number(load.server.worst_points, "points"),
            below=f"{number(load.server.pages_read)} pages of servers read",
            status=gate_status(report, "truth"),
        )),
    )  # fmt: skip
    return (*traffic_figures(report), *(card for value, card in more if value is not None))


def traffic_settings(
    report: LoadReport, groups: Iterable[tuple[str, Mapping[str, str]]] = ()
) -> tuple[tuple[str, str], ...]:
    """Return all settings of the run as (name, value), in reading order; `groups` are more."""
    known = [
        (word, report.traffic[key]) for key, word in SETTING_WORD.items() if key in report.traffic
    ]
    rest = [(key, value) for key, value in report.traffic.items() if key not in SETTING_WORD]
    others = [(f"{group} {key}", value) for group, pairs in groups for key, value in pairs.items()]
    generator = report.load.generator
    measured = [
        ("generator CPU, of one core", percent(generator.cpu_share)),
        ("machine CPU, of all cores", percent(generator.machine_cpu_share)),
        ("send lag, p50 and p99",
         f"{milliseconds(generator.lag_p50_ms)}, {milliseconds(generator.lag_p99_ms)}"),
        ("sessions started", number(generator.sessions_started)),
    ]  # fmt: skip
    set_by_user = ((name, value) for name, value in (*known, *rest, *others) if value)
    return (*set_by_user, *measured)


def error_classes(report: LoadReport) -> tuple[tuple[str, str], ...]:
    """Return (class, count) of the errors, the most frequent first."""
    classes = sorted(report.load.errors_by_class.items(), key=lambda pair: -(pair[1] or 0.0))
    return tuple((name, number(count)) for name, count in classes)


def gate_status(report: LoadReport, *words: str) -> str:
    """Return the worst status of the gates about one of `words`."""
    found = {gate.status for gate in gates_about(report, *words)}
    return next((status for status in ("fail", "pass") if status in found), "")
