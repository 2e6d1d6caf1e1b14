"""Draw a rollout: its steps on one time axis, and below them what regions and clients saw."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.report.plots import BAD, GOOD, MUTED, Figure, Json, Table, region_colour
from loadtest.report.wording import number, percent
from loadtest.rollout.clients import Clients, ClientSlice
from loadtest.rollout.document import Look, Region, RolloutReport
from loadtest.rollout.plots_steps import steps_figure
from loadtest.rollout.time_axis import as_percent, empty, over, seconds_of, stacked, step_marks

NO_LOOKS = "Nobody looked at this region from this working copy."


def figures(report: RolloutReport) -> dict[str, tuple[Figure, ...]]:
    """Draw everything, by section of the page."""
    return {
        "steps": (steps_figure(report),),
        "regions": tuple(
            region_figure(report, region, index) for index, region in enumerate(report.regions)
        ),
        "clients": clients_figures(report),
    }


def region_figure(report: RolloutReport, region: Region, index: int) -> Figure:
    """Draw who served, hits, first tokens and errors of a region, a row each."""
    name, title = f"region-{index}", f"{region.name}: as its frontends and API server said"
    if not region.looks:
        return empty(name, title, NO_LOOKS)
    looks, colour = region.looks, region_colour(index)
    rows: list[tuple[str, list[Json]]] = [
        (
            "replicas",
            [
                over(looks, "serve", lambda look: look.serving, colour, shape="hv"),
                over(looks, "have the new release", lambda look: look.updated, GOOD, shape="hv"),
            ],
        ),
        ("cache hit, %", [over(looks, "hit", lambda look: as_percent(look.hit), colour)]),
        (
            "first token, s",
            [
                over(looks, "mean", lambda look: look.ttft_mean_s, colour),
                over(looks, "95 % within", lambda look: look.ttft_p95_s, MUTED),
            ],
        ),
        ("errors, %", [over(looks, "errors", lambda look: as_percent(look.error_rate), BAD)]),
    ]
    floor: Json = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": region.floor,
        "y1": region.floor, "line": {"color": BAD, "width": 1.4, "dash": "dash"},
    }  # fmt: skip
    note = (
        f"At least {number(region.fewest)} of {region.replicas} served; the floor, dashed, is "
        f"{region.floor}. Lines: a step of this region begins."
    )
    table = Table(
        head=("from", "to", "serve", "new", "hit", "TTFT mean, s", "TTFT p95, s", "errors"),
        rows=tuple(_look_row(look) for look in looks),
    )
    figure = Figure(id=name, title=title, note=note, table=table)
    return stacked(report, figure, rows, [floor, *step_marks(report, region.name)])


def clients_figures(report: RolloutReport) -> tuple[Figure, ...]:
    """Draw what clients of each region saw; one figure that says why there is none."""
    if report.clients is None:
        return (empty("clients", "What clients saw", "No load test was given (--load)."),)
    found = report.clients.regions.items()
    return tuple(
        _client_figure(report, report.clients, name, slices, index)
        for index, (name, slices) in enumerate(found)
    ) or (empty("clients", "What clients saw", "The load test has no request."),)


def _client_figure(
    report: RolloutReport, clients: Clients, name: str, slices: Sequence[ClientSlice], index: int
) -> Figure:
    colour = region_colour(index)
    hits = [
        over(slices, "attainable", lambda part: as_percent(part.attainable), MUTED),
        over(slices, "hit", lambda part: as_percent(part.hit), colour),
    ]
    rows: list[tuple[str, list[Json]]] = [
        ("requests", [over(slices, "ended", lambda part: part.requests, MUTED)]),
        ("failed", [over(slices, "failed", lambda part: part.failed, BAD)]),
        ("first token p95, s", [over(slices, "p95", lambda part: part.ttft_p95_s, colour)]),
        ("cache hit, %", hits),
    ]
    table = Table(
        head=("from", "to", "requests", "failed", "TTFT p95, s", "hit", "attainable"),
        rows=tuple(
            (
                seconds_of(part.from_s), seconds_of(part.to_s), str(part.requests),
                str(part.failed), number(part.ttft_p95_s), percent(part.hit),
                percent(part.attainable),
            )
            for part in slices
        ),
    )  # fmt: skip
    note = f"From {clients.folder}; requests by when they ended."
    title = f"{name}: as clients saw it"
    figure = Figure(id=f"clients-{index}", title=title, note=note, table=table)
    return stacked(report, figure, rows, step_marks(report, name))


def _look_row(look: Look) -> tuple[str, ...]:
    return (
        seconds_of(look.from_s), seconds_of(look.to_s), str(look.serving), str(look.updated),
        percent(look.hit), number(look.ttft_mean_s), number(look.ttft_p95_s),
        percent(look.error_rate),
    )  # fmt: skip
