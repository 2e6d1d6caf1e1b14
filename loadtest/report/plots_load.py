"""Draw distributions and shares: first token, chunk gaps, replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loadtest.report.document import Bucket, Histogram, LoadReport, ReplicaLoad
from loadtest.report.plots import (
    ACCENT,
    INK,
    MUTED,
    SOFT,
    Figure,
    Json,
    Table,
    axis,
    category_axis,
    label,
    layout,
    region_colour,
)
from loadtest.report.timeline import outages
from loadtest.report.wording import MISSING, number, percent

MAX_TICKS = 16  # labels of buckets that fit side by side in the narrowest plot
EMPTY = Table(head=(), rows=())


def ttft_figure(identity: str, title: str, axis_title: str, buckets: Sequence[Bucket]) -> Figure:
    """Draw p50 and p95 of the time to first token per bucket."""
    shown = [bucket for bucket in buckets if bucket.p50 is not None or bucket.p95 is not None]
    if not shown:
        missing = "No answer had a first token, so there is no latency to show."
        return Figure(id=identity, title=title, note="", table=EMPTY, missing=missing)
    names = [label(bucket.bucket or MISSING) for bucket in shown]
    counts = [number(bucket.n) for bucket in shown]
    traces = [
        {
            "type": "bar", "name": name, "x": names, "y": values, "customdata": counts,
            "marker": {"color": colour},
            "hovertemplate": f"%{{x}}: {name} %{{y:,.4~g}} ms, %{{customdata}} requests"
            "<extra></extra>",
        }
        for name, colour, values in (
            ("p50", SOFT, [bucket.p50 for bucket in shown]),
            ("p95", ACCENT, [bucket.p95 for bucket in shown]),
        )
    ]  # fmt: skip
    drawn = layout(
        barmode="group",
        xaxis=category_axis(axis_title, showgrid=False),
        yaxis=axis("time to first token, ms", rangemode="tozero"),
    )
    rows = tuple(
        (bucket.bucket, number(bucket.n), number(bucket.p50), number(bucket.p95))
        for bucket in shown
    )
    table = Table(head=(axis_title, "requests", "p50, ms", "p95, ms"), rows=rows)
    return Figure(
        id=identity, title=title, note="", table=table, data=tuple(traces), layout=drawn,
        height_px=300,
    )  # fmt: skip


def gap_bars(histogram: Histogram) -> tuple[tuple[str, float | None, float], ...]:
    """Return (name, upper bound, count) per bucket, without the empty ends."""
    bounds: list[float | None] = [bound for bound in histogram.le_ms if bound is not None]
    counts = [count or 0.0 for count in histogram.count]
    bounds += [None] * (len(counts) - len(bounds))  # above the last bound
    used = [index for index, count in enumerate(counts) if count > 0 and index < len(bounds)]
    if not used:
        return ()
    bars = []
    for index in range(used[0], used[-1] + 1):
        upper = bounds[index]
        name = f"> {number(bounds[index - 1])}" if upper is None else f"≤ {number(upper)}"
        bars.append((name, upper, counts[index]))
    return tuple(bars)


def gap_figure(report: LoadReport) -> Figure:
    """Draw how long readers waited between two chunks, with p50 and p99 marked."""
    title = "Gap between chunks"
    bars = gap_bars(report.load.gap_ms.histogram)
    if not bars:
        missing = "No answer had two chunks, so there is no gap to show."
        return Figure(id="gap", title=title, note="", table=EMPTY, missing=missing)
    names = [label(name) for name, _, _ in bars]
    total = sum(count for _, _, count in bars)
    trace: Json = {
        "type": "bar", "name": "gaps", "x": names, "y": [count for _, _, count in bars],
        "customdata": [percent(count / total) for _, _, count in bars],
        "marker": {"color": ACCENT}, "showlegend": False,
        "hovertemplate": "%{x} ms: %{y:,} gaps, %{customdata}<extra></extra>",
    }  # fmt: skip
    shapes, notes = [], []
    for name, value in (("p50", report.load.gap_ms.p50), ("p99", report.load.gap_ms.p99)):
        place = _bar_of(bars, value)
        if place is not None:
            shapes.append(_upright(place))
            notes.append(_upright_note(place, f"{name} {number(value, 'ms')}"))
    drawn = layout(
        shapes=shapes,
        annotations=notes,
        bargap=0.06,
        xaxis=category_axis(
            "gap between two chunks of an answer, up to … ms",
            showgrid=False,
            tickmode="array",
            tickvals=names[:: len(names) // MAX_TICKS + 1],
        ),
        yaxis=axis("number of gaps"),
    )
    rows = tuple((name, number(count), percent(count / total)) for name, _, count in bars)
    table = Table(head=("gap, ms", "gaps", "share"), rows=rows)
    return Figure(
        id="gap", title=title, note="", table=table, data=(trace,), layout=drawn, height_px=300
    )


def replica_figure(report: LoadReport) -> Figure:
    """Draw each replica's share of its region's requests beside the cache hit it reported."""
    title = "Requests and cache hit per replica"
    replicas = sorted(report.load.replicas, key=lambda replica: (replica.region, replica.name))
    if not replicas:
        missing = "No replica is known to have served a request."
        return Figure(id="replicas", title=title, note="", table=EMPTY, missing=missing)
    drawn = layout(
        showlegend=False,
        margin={"l": 56, "r": 24, "t": 12, "b": 44},
        yaxis=category_axis("", autorange="reversed", showgrid=False),
        xaxis=axis("share of its region's requests, %", domain=[0, 0.62], rangemode="tozero"),
        xaxis2=axis("cache hit, %", domain=[0.68, 1], range=[0, 102], nticks=5),
    )
    return Figure(
        id="replicas",
        title=title,
        note="Colours are regions. The tick on a bar is an even split of its region.",
        table=_replica_table(report),
        data=_replica_traces(report, replicas),
        layout=drawn,
        height_px=80 + 22 * len(replicas),
    )


def _replica_traces(report: LoadReport, replicas: Sequence[ReplicaLoad]) -> tuple[Json, ...]:
    fate = {o.replica: " (lost)" if o.to_s is None else " (lost, back)" for o in outages(report)}
    names = [label(replica.name) + fate.get(replica.name, "") for replica in replicas]
    regions, sizes = report.region_names, Counter((r.region, r.role) for r in replicas)
    colours = [
        region_colour(regions.index(replica.region)) if replica.region in regions else MUTED
        for replica in replicas
    ]
    shares: Json = {
        "type": "bar", "orientation": "h", "name": "share of requests", "y": names,
        "x": [None if r.share is None else r.share * 100 for r in replicas],
        "customdata": [number(r.requests) for r in replicas], "marker": {"color": colours},
        "hovertemplate": "%{y}: %{x:.1f} % of its region (%{customdata})<extra></extra>",
    }  # fmt: skip
    even: Json = {
        "type": "scatter", "mode": "markers", "name": "even split", "y": names,
        "x": [100 / sizes[r.region, r.role] for r in replicas], "hoverinfo": "skip",
        "marker": {"symbol": "line-ns-open", "size": 16, "color": INK, "line": {"width": 1.5}},
    }  # fmt: skip
    hits: Json = {
        "type": "scatter", "mode": "markers", "name": "cache hit", "y": names, "xaxis": "x2",
        "x": [None if r.hit is None else r.hit * 100 for r in replicas],
        "marker": {"color": colours, "size": 9}, "cliponaxis": False,
        "hovertemplate": "%{y}: cache hit %{x:.1f} %<extra></extra>",
    }  # fmt: skip
    return shares, even, hits


def _bar_of(bars: Sequence[tuple[str, float | None, float]], value: float | None) -> int | None:
    if value is None:
        return None
    for index, (_, upper, _) in enumerate(bars):
        if upper is None or value <= upper:
            return index
    return None


def _upright(place: int) -> Json:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": place, "x1": place, "y0": 0, "y1": 1,
        "line": {"color": MUTED, "width": 1.4, "dash": "dot"},
    }  # fmt: skip


def _upright_note(place: int, text: str) -> Json:
    return {
        "xref": "x", "yref": "paper", "x": place, "y": 1, "yanchor": "bottom", "text": text,
        "showarrow": False, "font": {"color": MUTED, "size": 11},
    }  # fmt: skip


def _replica_table(report: LoadReport) -> Table:
    registered = {True: "yes", False: "no", None: MISSING}
    return Table(
        head=("region", "replica", "job", "registered", "requests", "share", "cache hit"),
        rows=tuple(
            (r.region, r.name, r.role or MISSING, registered[r.registered], number(r.requests),
             percent(r.share), percent(r.hit))
            for r in report.load.replicas
        ),
    )  # fmt: skip
