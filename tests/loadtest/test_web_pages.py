"""Claims about what we add to Locust's page: who may see it, and what it gives away."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from flask.testing import FlaskClient
from load_processes import free_port

from fleet.errors import ConfigError
from loadtest.judge.gates import load_gates
from loadtest.results.health_figures import Health
from loadtest.results.live_figures import LiveFigures
from loadtest.results.records import Record
from loadtest.web.board import Board
from loadtest.web.login import require_password
from loadtest.web.pages import attach
from loadtest.web.tables import tables

# Importing Locust patches sockets and threads of the whole process, unless told not to.
with patch.dict(os.environ, {"LOCUST_SKIP_MONKEY_PATCH": "1"}):
    from locust.env import Environment

MakeRecord = Callable[..., Record]
HOSTILE = "</script><script>document.title='owned'</script>"
PASSWORD = "correct horse"  # noqa: S105 - of a page that only this test sees


class Site:
    """A page with a board, as the master serves it."""

    def __init__(
        self, folder: Path, *, login: bool, base: str = "", host: str = "127.0.0.1"
    ) -> None:
        self.folder = folder
        self.environment = Environment(user_classes=[])
        self.environment.create_local_runner()
        self.environment.parsed_options = Namespace(
            web_base_path=base, num_users=1, spawn_rate=1, run_time=None,
            stats_history_enabled=False, web_host=host,
        )  # fmt: skip
        self.board = Board()
        self.checked: list[dict[str, str]] = []
        self.refusal: ConfigError | None = None
        web_ui = self.environment.create_web_ui(
            "127.0.0.1",
            free_port(),
            web_base_path=base or None,
            web_login=login,
            delayed_start=True,
        )
        if login:
            password = folder / "password"
            password.write_text(PASSWORD + "\n")
            require_password(web_ui, password)
        attach(web_ui, self.board, tables(self.board, load_gates(), lambda: None), self._check)
        assert web_ui.app is not None
        self.app = web_ui.app

    def client(self) -> FlaskClient:
        return self.app.test_client()

    def _check(self, form: Any) -> None:
        self.checked.append(dict(form))
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture(autouse=True)
def _command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locust reads the command line of the process for its form."""
    monkeypatch.setattr(sys, "argv", ["locust"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, login=False)


@pytest.fixture
def closed(tmp_path: Path) -> Site:
    return Site(tmp_path, login=True)


def our_routes(site: Site) -> list[str]:
    """List every address that we serve, with something filled in."""
    names = ("charts", "charts.js", "charts.css", "plotly.js")
    found: list[str] = []
    for rule in site.app.url_map.iter_rules():
        if rule.endpoint.startswith("k3fleet."):
            values = names if "<name>" in rule.rule else ("prefix-cache",)
            found += {
                rule.rule.replace("<name>", value).replace("<key>", value) for value in values
            }
    return sorted(found)


def figures(*records: Record) -> dict[str, Any]:
    live = LiveFigures()
    for record in records:
        live.add(record)
    health = Health(
        at_s=1.0, stage=HOSTILE, users=1, sessions=1, sessions_started=1, arrivals_due=0,
        calls_in_flight=0, cpu_share=0.1, memory_bytes=1, events_per_s=1.0, lags=(),
    )  # fmt: skip
    return {"figures": live.delta(), "health": health.plain()}


def test_all_that_we_serve_is_found(site: Site) -> None:
    """The tests of the login below go through this list."""
    assert our_routes(site) == [
        "/k3fleet/charts", "/k3fleet/charts.css", "/k3fleet/charts.js",
        "/k3fleet/csv/prefix-cache.csv", "/k3fleet/plotly.js", "/k3fleet/state.json",
    ]  # fmt: skip
    for route in our_routes(site):
        answer = site.client().get(route)
        assert answer.status_code == 200, route
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_without_the_login_every_route_of_ours_refuses(
    closed: Site, make_record: MakeRecord
) -> None:
    """Figures of a fleet, and the button that loads it, are not for everybody."""
    closed.board.take("w", figures(make_record()))
    for route in (*our_routes(closed), "/", "/stats/requests"):
        answer = closed.client().get(route)
        assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, "/login")
        assert b"prefix" not in answer.data.split(b"login?", 1)[0]
        assert b"extended_stats" not in answer.data
    answer = closed.client().post("/swarm", data={"user_count": "1", "spawn_rate": "1"})
    assert (answer.status_code, closed.checked) == (302, [])


def test_with_the_password_every_route_opens(closed: Site) -> None:
    """The login is ours, since Locust has none."""
    client = closed.client()
    assert "password" in client.get("/login").text
    assert client.post("/k3fleet-login", data={"password": PASSWORD}).headers["Location"] == "/"
    for route in (*our_routes(closed), "/", "/stats/requests"):
        assert client.get(route).status_code == 200, route
    assert "extended_stats" in client.get("/stats/requests").text


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({"password": "wrong"}, {}),
        ({}, {}),
        ({"password": PASSWORD}, {"Origin": "http://elsewhere.example"}),
    ],
)
def test_a_wrong_password_or_another_site_opens_nothing(
    closed: Site, form: dict[str, str], headers: dict[str, str]
) -> None:
    """And is told so on the login page."""
    client = closed.client()
    answer = client.post("/k3fleet-login", data=form, headers=headers)
    assert answer.headers["Location"] == "/login"
    assert "This is not the password." in client.get("/login").text
    assert client.get("/k3fleet/state.json").status_code == 302


@pytest.mark.parametrize("text", [None, "", "short"])
def test_a_login_that_nobody_could_use_is_refused(tmp_path: Path, text: str | None) -> None:
    """At the start, and not when the first one tries."""
    file = tmp_path / "password"
    if text is not None:
        file.write_text(text)
    environment = Environment(user_classes=[])
    environment.create_local_runner()
    web_ui = environment.create_web_ui("127.0.0.1", free_port(), web_login=True, delayed_start=True)
    with pytest.raises(ConfigError) as caught:
        require_password(web_ui, file)
    assert str(file) in str(caught.value)
    with pytest.raises(ConfigError, match="--web-password-file"):
        require_password(web_ui, None)


def test_a_password_file_without_end_is_refused() -> None:
    """It would be read into memory until there is none."""
    environment = Environment(user_classes=[])
    environment.create_local_runner()
    web_ui = environment.create_web_ui("127.0.0.1", free_port(), web_login=True, delayed_start=True)
    with pytest.raises(ConfigError, match="not a regular file"):
        require_password(web_ui, Path("/dev/zero"))


def test_hostile_names_are_text_wherever_they_are_shown(
    site: Site, make_record: MakeRecord
) -> None:
    """A replica names itself."""
    site.board.take("w", figures(make_record(region=HOSTILE, worker=HOSTILE)))
    site.board.sample(None)
    site.board.problem = HOSTILE
    client = site.client()
    state, stats = client.get("/k3fleet/state.json"), client.get("/stats/requests")
    assert (state.mimetype, stats.mimetype) == ("application/json", "application/json")
    assert state.headers["X-Content-Type-Options"] == "nosniff"
    assert HOSTILE in json.loads(state.data)["samples"][0]["regions"]
    assert HOSTILE not in client.get("/").text
    assert client.get("/k3fleet/csv/replicas.csv").mimetype == "text/csv"
    # "</" needs no escape in JSON; nothing that reads it writes markup (see the browser's test).


def test_the_page_names_our_tabs_files_and_charts(site: Site) -> None:
    """Locust's own page shows them."""
    page = site.client().get("/").text
    for title in ("Prefix cache", "SLO gates", "Generator health", "Regions and replicas"):
        assert page.count(title) >= 2
    assert 'href="./k3fleet/charts"' in page


def test_a_start_is_checked_before_locust_sees_it(site: Site) -> None:
    """The form shows the message that comes with `success: false`."""
    site.refusal = ConfigError("seed: 'x' is no number.")
    answer = site.client().post("/swarm", data={"seed": "x"})
    assert answer.get_json() == {
        "success": False, "message": "seed: 'x' is no number.", "host": None,
    }  # fmt: skip
    assert site.checked == [{"seed": "x"}]


def test_nothing_of_the_machine_is_served(site: Site) -> None:
    """Names of files that we did not choose are not found."""
    for path in ("charts.html", "..%2fpages.py", "%2e%2e/pages.py", "csv/nothing.csv"):
        assert site.client().get(f"/k3fleet/{path}").status_code == 404


def test_no_page_names_another_host(site: Site) -> None:
    """A rack's network has no way out."""
    for route in ("/k3fleet/charts", "/k3fleet/charts.js", "/k3fleet/charts.css"):
        assert "//" not in site.client().get(route).text.replace("\n  //", "").replace("\n//", "")


@pytest.mark.parametrize("login", [False, True])
def test_a_page_below_a_path_has_all_below_it(tmp_path: Path, login: bool) -> None:
    """A gateway in front may give the page a path of its own."""
    site = Site(tmp_path, login=login, base="/load")
    client = site.client()
    if login:
        assert client.get("/load/k3fleet/charts").headers["Location"].startswith("/load/login")
        assert '"/load/k3fleet-login"' in client.get("/load/login").text
        answer = client.post("/load/k3fleet-login", data={"password": PASSWORD})
        assert answer.headers["Location"] == "/load/"
    assert all(route.startswith("/load/k3fleet/") for route in our_routes(site))
    for route in our_routes(site):
        assert client.get(route).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://evil.example", "Host": "evil.example"},
        {"Host": "[::1"},
    ],
)
def test_another_site_starts_and_stops_nothing(site: Site, headers: dict[str, str]) -> None:
    """A page that somebody has open elsewhere could else load the fleet, without any login."""
    for route in ("/swarm", "/stop", "/stats/reset"):
        form = {"user_count": "2", "spawn_rate": "2"}
        assert site.client().post(route, data=form, headers=headers).status_code == 403
    assert site.checked == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8089", "127.0.0.1.evil.example"])
def test_a_foreign_name_for_our_address_reads_nothing(site: Site, host: str) -> None:
    """A name that its owner points at loopback has the rights of a page of ours."""
    for route in ("/", "/stats/requests", *our_routes(site)):
        assert site.client().get(route, headers={"Host": host}).status_code == 403, route


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "127.0.0.1:8089"},
        {"Host": "[::1]:8089"},
        {"Host": "localhost:8089", "Origin": "http://localhost:8089"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
        {"Host": "fleet.example:8089", "Origin": "http://fleet.example:8089"},
    ],
)
def test_the_page_itself_and_commands_press_start(site: Site, headers: dict[str, str]) -> None:
    """Our page, curl, and the command for a pod; the last name is the given --web-host."""
    given = Site(site.folder, login=False, host="fleet.example")
    given.refusal = ConfigError("seen: it came through. Go on.")
    answer = given.client().post("/swarm", data={"seed": "1"}, headers=headers)
    assert (answer.status_code, given.checked) == (200, [{"seed": "1"}])


def test_with_a_login_any_name_will_do(closed: Site) -> None:
    """Behind an ingress the page has a name that it does not know; the cookie keeps others out."""
    assert closed.client().get("/login", headers={"Host": "fleet.example"}).status_code == 200
