"""What a driver keeps of its regions, for the report."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rollout_site import pods_of

from fleet.errors import ApplyError
from infra.rollout import sampling
from infra.rollout.checks import EnginePod
from infra.rollout.metrics import INFLIGHT, inflight
from infra.rollout.sampling import Sampler, figures_file, read_figures, sampled

PAGE = """\
dynamo_frontend_requests_total{error_type="",status="success"} OK
dynamo_frontend_requests_total{error_type="internal",status="error"} 2
dynamo_frontend_input_sequence_tokens_sum{model="m"} 1000
dynamo_frontend_cached_tokens_sum{model="m"} 600
dynamo_frontend_time_to_first_token_seconds_sum{model="m"} 9
dynamo_frontend_time_to_first_token_seconds_count{model="m"} 30
dynamo_frontend_time_to_first_token_seconds_bucket{model="m",le="0.5"} 30
"""


@dataclass
class Frontend:
    """Shows one page after the other; the last one stays. None: it does not answer."""

    texts: list[str | None]
    url: str = "http://frontend"

    def page(self, _path: str) -> str | None:
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


@dataclass
class Region:
    """Replicas by release; all are in routing but those that are named."""

    frontend: Frontend
    releases: Mapping[str, str] = field(default_factory=lambda: {"a": "new", "b": "old"})
    out: set[str] = field(default_factory=set)
    away: bool = False

    def engines(self) -> list[EnginePod]:
        return [pod for name, release in self.releases.items() for pod in pods_of(name, release)]

    def in_routing(self) -> frozenset[str]:
        if self.away:
            raise ApplyError("away")
        return frozenset(f"{name}-0" for name in self.releases if name not in self.out)

    def workers(self) -> dict[str, str]:
        return {f"{name}-0": name for name in self.releases}

    def frontends(self) -> tuple[Frontend, ...]:
        return (self.frontend,)


def page(ended: int) -> str:
    return PAGE.replace("OK", str(ended))


def ticking() -> Callable[[], float]:
    times = iter(range(100, 1000, 5))
    return lambda: float(next(times))


def sampler(path: Path, region: Region, most: int = 100) -> Sampler:
    return Sampler(path, {"east": region}, "new", most)  # type: ignore[dict-item]


def test_a_figure_is_what_was_counted_between_two_looks(tmp_path: Path) -> None:
    """What frontends had counted before the rollout is not its doing."""
    path, clock = tmp_path / "0001.figures", ticking()
    region = Region(Frontend([page(90), page(100)]), out={"b"})
    look = sampler(path, region)
    look.look(clock)
    assert read_figures(path) == ()
    look.look(clock)
    [found] = read_figures(path)
    assert (found.from_s, found.to_s, found.requests, found.errors) == (100, 105, 10, 0)
    assert (found.serving, found.updated, found.replicas) == (1, 1, 2)


def test_a_frontend_that_restarted_has_counted_from_zero(tmp_path: Path) -> None:
    """Negative requests would be worse than none."""
    path, clock = tmp_path / "0001.figures", ticking()
    look = sampler(path, Region(Frontend([page(90), page(3)])))
    look.look(clock)
    look.look(clock)
    [found] = read_figures(path)
    assert (found.requests, found.ttft_mean_s, found.ttft_p95_s) == (5, 0.3, 0.5)


def test_what_does_not_answer_is_not_zero(tmp_path: Path) -> None:
    """And the next figure has what was counted meanwhile."""
    path, clock = tmp_path / "0001.figures", ticking()
    look = sampler(path, Region(Frontend([page(90), None, page(100)])))
    for _ in range(3):
        look.look(clock)
    silent, after = read_figures(path)
    assert (silent.requests, silent.serving, after.requests) == (None, 2, 10)


def test_a_region_that_is_away_is_left_out(tmp_path: Path) -> None:
    """The rollout waits for it, and so does the report."""
    path, clock = tmp_path / "0001.figures", ticking()
    region = Region(Frontend([page(90), page(95), page(100)]))
    look = sampler(path, region)
    for away in (False, True, False):
        region.away = away
        look.look(clock)
    [found] = read_figures(path)
    assert found.requests == 5


def test_the_file_stays_small_and_goes_on_where_a_driver_died(tmp_path: Path) -> None:
    """A line that was being written is left out; older ones get coarser, none is lost."""
    path, clock = tmp_path / "0001.figures", ticking()
    for _ in range(2):
        look = sampler(path, Region(Frontend([page(90 + n) for n in range(40)])), most=20)
        for _ in range(41):
            look.look(clock)
        with path.open("a") as file:
            file.write('{"region": "ea')
    found = read_figures(path)
    assert len(found) <= 20
    assert sum(one.requests or 0 for one in found) == 2 * 39


def test_looks_are_taken_while_the_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And end with it."""
    monkeypatch.setattr(sampling, "EVERY_S", 0.001)
    seen = threading.Event()
    region = Region(Frontend([page(1)]))
    whole = region.frontend.page

    def counted_page(path: str) -> str | None:
        if read_figures(figures_file(tmp_path / "0001.jsonl")):
            seen.set()
        return whole(path)

    region.frontend.page = counted_page  # type: ignore[method-assign]
    before = threading.active_count()
    path = figures_file(tmp_path / "0001.jsonl")
    with sampled(path, {"east": region}, "new", say=pytest.fail):  # type: ignore[dict-item]
        assert seen.wait(30)
    assert threading.active_count() == before


def test_a_disk_that_is_full_stops_no_rollout(tmp_path: Path) -> None:
    """The figures are for a report; it is said once."""
    said: list[str] = []
    heard = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        heard.set()

    with sampled(tmp_path / "no" / "0001.figures", {}, "new", say=say):
        assert heard.wait(30)
    assert len(said) == 1
    assert "cannot be kept" in said[0]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e999", "1e300", "many"])
def test_a_frontend_that_counts_nonsense_has_not_counted(tmp_path: Path, value: str) -> None:
    """Its line says nothing; the others do, and whoever looks goes on."""
    path, clock = tmp_path / "0001.figures", ticking()
    spoilt = page(95).replace("} 2\n", f"}} {value}\n").replace('le="0.5"', 'l="0.5"')
    assert value in spoilt
    look = sampler(path, Region(Frontend([page(90), spoilt, page(99)])))
    for _ in range(3):
        look.look(clock)
    assert len(read_figures(path)) == 2
    engine = Frontend([f'{INFLIGHT}{{dynamo_endpoint="generate"}} {value}'])
    assert inflight(engine) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"requests": 1e308, "errors": 1e308},
        {"from_s": -1e308, "to_s": 1e308},
        {"serving": 10**400},
        {"to_s": 1e300},
        {"buckets": {"1e308": 1}},
        {"buckets": {"inf": 1}},
        {"errors": float("nan")},
    ],
    ids=str,
)
def test_a_figure_that_nothing_can_have_counted_is_left_out(
    tmp_path: Path, spoilt: dict[str, object]
) -> None:
    """It would end the report with a traceback, or make JSON of it that no program reads."""
    whole = {"region": "e", "from_s": 1, "to_s": 2, "serving": 1, "updated": 0, "replicas": 1}
    file = tmp_path / "0001.figures"
    file.write_text(f"{json.dumps(whole)}\n{json.dumps({**whole, **spoilt})}\n")
    assert len(read_figures(file)) == 1
