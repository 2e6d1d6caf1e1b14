"""The page in a real browser: start from the form, tabs fill, charts draw, stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import BROWSER, BROWSERS, Browser, browser
from load_processes import LoadProcesses

from loadtest.results.records import GENERATOR_FILE
from loadtest.settings import PLAYED_FILE

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>"

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"needs a browser on PATH, one of {', '.join(BROWSERS)}"
)


@pytest.fixture
def load(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Iterator[LoadProcesses]:
    processes = LoadProcesses(tmp_path, gateway, tokenizer_dir)
    processes.write(
        duration_s=600, targets={"us": f"{gateway}/ok", HOSTILE: f"{gateway}/unreported"}
    )
    yield processes
    processes.end()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path) as opened:
        yield opened


def cells(text: str) -> str:
    """Say in JavaScript that a table has a cell with that text."""
    return (
        "[...document.querySelectorAll('td')].some((cell) => "
        f"cell.textContent === {json.dumps(text)})"
    )


def drawn(plot: str) -> str:
    """Count in JavaScript the lines that a plot has drawn."""
    return f"document.querySelectorAll('#{plot} .scatterlayer .trace').length"


def test_a_test_is_started_watched_and_stopped_in_the_browser(
    load: LoadProcesses, page: Browser
) -> None:
    """On launch day nobody reads a terminal."""
    load.start("--web-port", str(load.page), "--stop-timeout", "8")
    load.until(load.get, "the page")
    url = f"http://127.0.0.1:{load.page}/"
    page.open(url)
    page.until("document.querySelector('[name=\"seed\"]')?.value === '1'", "our parameters")

    page.type("seed", "x")
    page.click("Start")
    page.until("document.body.innerText.includes(\"seed: 'x' is no number\")", "the refusal")
    page.type("seed", "7")
    page.type("tokenScale", "100")
    page.type("userCount", "3")
    page.click("Start")

    page.click("Prefix cache")
    page.until(cells("us"), "a row of the region")
    page.until(cells(HOSTILE), "a row of the hostile region, as text")
    page.click("SLO gates")
    page.until(cells("waiting"), "a gate that waits")
    page.until(cells("pass"), "a gate that passes")
    page.click("Generator health")
    page.until(cells("3 users"), "the load")
    page.click("Regions and replicas")
    page.until(cells("42"), "the replica")
    assert load.until(lambda: load.get()["user_count"] == 3, "three users")

    page.open(url + "k3fleet/charts")
    page.until(f"{drawn('hit')} === 4", "achieved and attainable of two regions")
    page.until(f"{drawn('ttft')} === 4", "two percentiles of two regions")
    for plot, lines in (("tokens", 1), ("users", 3), ("errors", 4)):
        page.until(f"{drawn(plot)} === {lines}", plot)
    assert page.run("document.title") == "k3fleet load test: live"
    assert page.run("document.querySelectorAll('main img').length") == 0

    page.open(url)
    page.click("Stop")
    load.until((load.results / GENERATOR_FILE).exists, "the end of the test")
    settings = json.loads((load.results / PLAYED_FILE).read_text())
    assert (settings["seed"], settings["users"], settings["token_scale"]) == (7, 3, 100.0)
    assert [item for item in page.complaints if "favicon" not in item] == []


def test_the_page_of_a_master_asks_for_the_password_and_shows_its_workers(
    load: LoadProcesses, page: Browser, tmp_path: Path
) -> None:
    """Login, workers and charts together, as in a cluster."""
    password = tmp_path / "password"
    password.write_text("correct horse\n")
    load.master("--web-login", "--web-password-file", str(password))
    load.workers(2)
    url = f"http://127.0.0.1:{load.page}/"
    load.until(lambda: b"login" in load.raw("/login"), "the login")
    page.open(url + "k3fleet/charts")
    page.until("location.pathname === '/login'", "the login")
    page.type("password", "correct horse")
    page.click("Log in")
    page.until("document.querySelector('[name=\"seed\"]')?.value === '1'", "the form")
    page.until("document.body.innerText.includes('2')", "two workers")
    page.type("stages", "warm-up 5s 2; soak 10m 4")
    page.until("!document.querySelector('button[type=submit]').disabled", "workers that are ready")
    page.click("Start")
    page.click("Generator health")
    for text in ("worker-0", "worker-1", "soak", "4 users"):
        page.until(cells(text), text)
    page.open(url + "k3fleet/charts")
    page.until(f"{drawn('hit')} === 4", "the charts")
    page.until("document.getElementById('status').textContent.includes('soak')", "the stage")
