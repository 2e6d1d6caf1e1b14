"""Draw what happened over time: cache hit per region, throughput, events."""

from __future__ import annotations

from loadtest.report.document import LoadReport
from loadtest.report.plots import (
    BAD,
    MUTED,
    Figure,
    Json,
    Table,
    axis,
    event_marks,
    label,
    layout,
    line,
    outage_bands,
    region_colour,
    region_dash,
    stage_marks,
    time_axis,
)
from loadtest.report.timeline import RegionSeries, Values, markers, outages, region_series
from loadtest.report.wording import gates_about, judged_part, number, percent, ratio

NO_TRAFFIC = "No request was measured, so there is nothing to plot over time."
THROUGHPUT_ROWS = (
    ("prompt_tokens_per_s", "prompt tokens/s"),
    ("output_tokens_per_s", "output tokens/s"),
    ("requests_per_s", "requests/s"),
    ("ttft_p95_ms", "TTFT p95, ms"),
)


def time_figures(report: LoadReport) -> tuple[Figure, ...]:
    """Return one cache plot per region, then the throughput of all."""
    series = region_series(report)
    if not series:
        empty = Table(head=(), rows=())
        return (
            Figure(id="hit", title="Cache hit over time", note="", table=empty, missing=NO_TRAFFIC),
            Figure(
                id="throughput", title="Throughput over time", note="", table=empty,
                missing=NO_TRAFFIC,
            ),
        )  # fmt: skip
    hits = [hit_figure(report, part, index) for index, part in enumerate(series)]
    return (*hits, throughput_figure(report, series))


def time_marks(report: LoadReport, region: str | None = None) -> tuple[list[Json], list[Json]]:
    """Return (shapes, annotations) of the events and the stages of a run."""
    shapes, notes = event_marks(markers(report, region))
    stages, names = stage_marks(report.stages)
    return [*stages, *shapes], [*names, *notes]


def ratio_limit(report: LoadReport) -> float | None:
    """Return the limit of the gate on achieved ÷ attainable, None when no gate has one."""
    limits = (gate.limit for gate in gates_about(report, "ratio"))
    return next((limit for limit in limits if limit is not None), None)


def hit_figure(report: LoadReport, series: RegionSeries, index: int) -> Figure:
    """Draw achieved against attainable hit of one region, and below it their ratio."""
    colour = region_colour(index)
    attainable = line("attainable", series.t_s, _percents(series.attainable), MUTED)
    attainable["line"] = {"color": MUTED, "width": 1.8, "dash": "dash"}
    achieved = line("achieved", series.t_s, _percents(series.achieved), colour)
    quotient = line("achieved ÷ attainable", series.t_s, series.ratio, colour)
    quotient |= {"yaxis": "y2", "showlegend": False}
    for trace, unit in ((attainable, ".1f"), (achieved, ".1f"), (quotient, ".3f")):
        suffix = " %" if trace is not quotient else ""
        trace["hovertemplate"] = f"%{{x:.0f}} s: %{{y:{unit}}}{suffix}"
    shapes, notes = time_marks(report, series.region)
    end_s = max(report.run_s, series.t_s[-1])
    shapes += outage_bands((o for o in outages(report) if o.region == series.region), end_s)
    bound = ratio_limit(report)
    if bound is not None:
        shapes.append(_limit_line(bound, "y2"))
        notes.append(_limit_note(bound, "y2"))
    drawn = layout(
        shapes=shapes,
        annotations=notes,
        xaxis=time_axis(anchor="y2", range=[0, end_s]),
        yaxis=axis("cache hit, %", range=[0, 102], domain=[0.44, 1], fixedrange=True),
        yaxis2=axis("ratio", range=_ratio_range(series.ratio, bound), domain=[0, 0.33], nticks=4),
    )
    return Figure(
        id=f"hit-{index}",
        title=f"{series.region}: achieved against attainable cache hit",
        note=_hit_note(report, series.region),
        table=_hit_table(series),
        data=(attainable, achieved, quotient),
        layout=drawn,
        height_px=360,
    )


def throughput_figure(report: LoadReport, series: tuple[RegionSeries, ...]) -> Figure:
    """Draw tokens, requests and first-token latency over time, a row each, a line per region."""
    traces: list[Json] = []
    for row, (field, title) in enumerate(THROUGHPUT_ROWS):
        for index, part in enumerate(series):
            trace = line(part.region, part.t_s, getattr(part, field), region_colour(index))
            trace["line"]["dash"] = region_dash(index)
            trace |= {"yaxis": f"y{row + 1}" if row else "y", "legendgroup": f"r{index}"}
            trace |= {
                "showlegend": row == 0,
                "hovertemplate": f"%{{x:.0f}} s: %{{y:,.4~g}} {title}",
            }
            traces.append(trace)
    traces += _error_traces(series)
    shapes, notes = time_marks(report)
    end_s = max(report.run_s, series[0].t_s[-1])
    shapes += outage_bands(outages(report), end_s)
    rows = len(THROUGHPUT_ROWS)
    axes = {
        f"yaxis{row + 1 if row else ''}": axis(
            title, rangemode="tozero", nticks=4, domain=_row_domain(row, rows)
        )
        for row, (_, title) in enumerate(THROUGHPUT_ROWS)
    }
    bottom = time_axis(anchor=f"y{rows}", range=[0, end_s])
    return Figure(
        id="throughput",
        title="Throughput and first-token latency over time",
        note="Slices of the run; errors, if any, are crosses in the row of requests.",
        table=_throughput_table(series),
        data=tuple(traces),
        layout=layout(shapes=shapes, annotations=notes, xaxis=bottom, **axes),
        height_px=620,
    )


def _error_traces(series: tuple[RegionSeries, ...]) -> list[Json]:
    points = [
        (part.region, at, rate)
        for part in series
        for at, rate in zip(part.t_s, part.errors_per_s, strict=True)
        if rate
    ]
    if not points:
        return []
    return [
        {
            "type": "scatter", "mode": "markers", "name": "errors/s", "yaxis": "y3",
            "x": [at for _, at, _ in points], "y": [rate for _, _, rate in points],
            "text": [label(region) for region, _, _ in points],
            "marker": {"symbol": "x", "size": 7, "color": BAD},
            "hovertemplate": "%{x:.0f} s: %{y:.2~f} errors/s, %{text}<extra></extra>",
        }
    ]  # fmt: skip


def _row_domain(row: int, rows: int, gap: float = 0.05) -> list[float]:
    height = (1 - gap * (rows - 1)) / rows
    top = 1 - row * (height + gap)
    return [max(0.0, round(top - height, 4)), round(top, 4)]


def _ratio_range(ratios: Values, bound: float | None) -> list[float]:
    """Return an axis that shows 1, the limit and every ratio, not the empty part below them."""
    shown = [1.0, *(value for value in (*ratios, bound) if value is not None)]
    return [max(0.0, min(shown) - 0.08), max(shown) + 0.03]


def _percents(shares: Values) -> list[float | None]:
    return [None if share is None else share * 100 for share in shares]


def _limit_line(bound: float, yaxis: str) -> Json:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": yaxis, "y0": bound, "y1": bound,
        "line": {"color": BAD, "width": 1.2, "dash": "dash"},
    }  # fmt: skip


def _limit_note(bound: float, yaxis: str) -> Json:
    return {
        "xref": "paper", "x": 1, "xanchor": "right", "yref": yaxis, "y": bound, "yanchor": "top",
        "text": f"limit {ratio(bound)}", "showarrow": False, "font": {"color": BAD, "size": 11},
    }  # fmt: skip


def _hit_note(report: LoadReport, region: str) -> str:
    for found in report.load.regions:
        if found.name == region:
            hit = found.hit
            return (
                f"{judged_part(report)}: achieved {percent(hit.achieved)}, attainable "
                f"{percent(hit.attainable)}, ratio {ratio(hit.ratio)}."
            )
    return ""


def _hit_table(series: RegionSeries) -> Table:
    rows = zip(series.t_s, series.achieved, series.attainable, series.ratio, strict=True)
    return Table(
        head=("seconds", "achieved", "attainable", "ratio"),
        rows=tuple(
            (number(at), percent(got), percent(could), ratio(quotient))
            for at, got, could, quotient in rows
        ),
    )


def _throughput_table(series: tuple[RegionSeries, ...]) -> Table:
    rows = [
        (at, part.region, *(getattr(part, field)[step] for field, _ in THROUGHPUT_ROWS))
        for part in series
        for step, at in enumerate(part.t_s)
    ]
    return Table(
        head=("seconds", "region", *(title for _, title in THROUGHPUT_ROWS)),
        rows=tuple(
            (number(at), region, *(number(value) for value in values))
            for at, region, *values in rows
        ),
    )
