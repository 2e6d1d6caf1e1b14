"""The report in a real browser: every plot is drawn, nothing foreign runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lab.report import write_report

Sample = Callable[..., dict[str, Any]]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--enable-logging=stderr", "--window-size=1400,2000",
    "--virtual-time-budget=20000",
)  # fmt: skip
OWNED = (
    "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"needs a browser on PATH, one of {', '.join(BROWSERS)}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A page as the browser left it."""

    dom: str
    console: tuple[str, ...]
    traces: Counter[str]
    wanted: Counter[str]
    bars: Counter[str]


class _Traces(HTMLParser):
    """Counts the groups that plotly draws, one per trace, and the bars in them, per plot."""

    def __init__(self) -> None:
        super().__init__()
        self.plot = ""
        self.traces: Counter[str] = Counter()
        self.bars: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        classes = (found.get("class") or "").split()
        if "plot" in classes:
            self.plot = found.get("id") or ""
        if tag == "g" and "trace" in classes:
            self.traces[self.plot] += 1
        if tag == "g" and "point" in classes:
            self.bars[self.plot] += 1


def open_page(report: dict[str, Any], folder: Path, *flags: str) -> Opened:
    """Write the report, open it, and return the page after its scripts ran."""
    page = write_report(report, folder)
    profile = folder / "browser-profile"
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True
    )
    embedded = re.search(r'id="figures">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert embedded is not None
    figures = json.loads(embedded[1])
    counted = _Traces()
    counted.feed(done.stdout)
    return Opened(
        dom=done.stdout,
        console=tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line),
        traces=counted.traces,
        wanted=Counter({figure["id"]: len(figure["data"]) for figure in figures}),
        bars=counted.bars,
    )


@pytest.fixture(scope="module")
def no_go(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Opened:
    """Open the no-go once for all tests that only look at it."""
    return open_page(sample(verdict="no-go"), tmp_path_factory.mktemp("no-go"))


def test_every_trace_of_every_plot_is_drawn(no_go: Opened) -> None:
    """A plot that stays empty looks like a fleet that did nothing."""
    assert no_go.traces == no_go.wanted


def test_the_page_holds_all_plots(no_go: Opened) -> None:
    """One cache plot per region and the seven that every run has."""
    assert sorted(no_go.traces) == [
        "gap", "hit-0", "hit-1", "replicas", "steps", "throughput", "ttft-context", "ttft-turn",
    ]  # fmt: skip


def test_every_step_has_its_bar(no_go: Opened) -> None:
    """Eight steps ran in the sample."""
    assert no_go.bars["steps"] == 8


def test_the_loss_and_the_recovery_are_marked_on_the_plots(no_go: Opened) -> None:
    """A dip without its cause sends the reader looking in the wrong place."""
    assert no_go.dom.count('class="annotation"') >= 4


def test_the_console_stays_silent(no_go: Opened) -> None:
    """A blocked script or style would be reported there."""
    assert no_go.console == ()


def test_a_dark_desktop_gets_dark_plots(sample: Sample, tmp_path: Path) -> None:
    """Plotly knows no style sheets: the colours are handed to it."""
    page = open_page(sample(), tmp_path, "--blink-settings=preferredColorScheme=0")
    assert "rgb(86, 180, 233)" in page.dom  # --region-1 of the dark palette


def test_hostile_names_do_not_run(sample: Sample, tmp_path: Path) -> None:
    """Whatever a worker calls itself, the browser shows it as text."""
    report = sample(verdict="no-go")
    report["fleet"] = OWNED
    for replica in report["load"]["replicas"]:
        replica["name"] = OWNED + replica["name"]
    for step in report["steps"]:
        step["name"] = step["detail"] = OWNED
    page = open_page(report, tmp_path)
    assert "<title>owned</title>" not in page.dom
    assert (page.console, page.traces) == ((), page.wanted)


def test_a_run_that_stopped_early_draws_its_steps_only(sample: Sample, tmp_path: Path) -> None:
    """No traffic, no racks: the page is still a page."""
    report = {key: sample()[key] for key in ("fleet", "steps")}
    page = open_page(report, tmp_path)
    assert (page.console, sorted(page.traces)) == ((), ["steps"])
