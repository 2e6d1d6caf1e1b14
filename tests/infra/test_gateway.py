"""The gateway's file, in the Envoy that runs it."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateway_rig import MODEL, Rig, envoy, envoy_file, on_disk, running

from fleet.load import Fleet
from infra.options import Options
from infra.render import render_region

MakeFleet = Callable[..., Fleet]


@pytest.mark.parametrize("options", [Options(), Options(dns_server="127.0.0.1:53")])
def test_envoy_accepts_the_file_without_a_warning(
    demo: Fleet, tmp_path: Path, options: Options
) -> None:
    """A deprecated field works today and keeps the gateway from starting after an upgrade."""
    path = tmp_path / "envoy.yaml"
    path.write_text(on_disk(demo, tmp_path, options))
    check = subprocess.run(
        [envoy(), "--mode", "validate", "-c", str(path), "--log-level", "warning"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_no_header_is_logged(demo: Fleet) -> None:
    """Authorization in a log is a leak that stays."""
    manager = yaml.safe_load(envoy_file(demo))["static_resources"]["listeners"][0]
    log = manager["filter_chains"][0]["filters"][0]["typed_config"]["access_log"]
    formats = log[0]["typed_config"]["log_format"]["json_format"].values()
    assert [text for text in formats if "REQ(" in text or "HEADER(" in text] == [
        "%REQUEST_HEADER(:METHOD)%"
    ]


@pytest.fixture(scope="module")
def rig(make_fleet: MakeFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with running(make_fleet(), tmp_path_factory.mktemp("gateway")) as found:
        yield found


def test_a_session_stays_on_its_frontend(rig: Rig) -> None:
    """A frontend remembers which replica holds the session's cache."""
    by_session = {
        session: Counter(rig.chat(f"session-{session}")[1]["by"] for _ in range(5))
        for session in range(12)
    }
    assert {len(seen) for seen in by_session.values()} == {1}
    assert len({next(iter(seen)) for seen in by_session.values()}) == 2


def test_only_the_api_is_reachable(rig: Rig) -> None:
    """Frontends also serve metrics and switches for administrators."""
    assert [rig.call("GET", path)[0] for path in ("/metrics", "/health", "/")] == [404, 404, 404]


def test_a_large_prompt_is_sent_again_when_it_was_refused(rig: Rig) -> None:
    """A frontend that stops refuses new requests; a million tokens are about 4 MB."""
    first = rig.chat("again")[1]["by"]
    owner = next(item for item in rig.frontends if item.address == first)
    owner.refusals = 1
    status, body = rig.chat("again", size=4_500_000)
    assert (status, body["size"], body["by"] != first) == (200, 4_500_000, True)


def test_a_frontend_without_the_model_gets_no_traffic(rig: Rig) -> None:
    """It answers 200 on /health and an empty list on /v1/models."""
    empty, full = rig.frontends
    empty.models = ["another-model"]
    try:
        rig.wait(lambda: {rig.owner(str(n)) for n in range(12)} == {full.address})
    finally:
        empty.models = [MODEL]
        both = {empty.address, full.address}
        rig.wait(lambda: {rig.owner(str(n)) for n in range(12)} == both)


def test_a_gateway_without_any_model_is_not_ready(rig: Rig) -> None:
    """The load balancer before it can then use another region."""
    for frontend in rig.frontends:
        frontend.models = []
    try:
        rig.wait(lambda: not rig.healthy())
        rig.wait(lambda: rig.chat("x")[0] == 503)
    finally:
        for frontend in rig.frontends:
            frontend.models = [MODEL]
        rig.wait(rig.healthy)


def test_credentials_do_not_reach_the_log(rig: Rig) -> None:
    """Each call here carried the word."""
    rig.chat("y")
    rig.wait(lambda: b"/v1/chat/completions" in rig.log.read_bytes())
    assert b"sesame" not in rig.log.read_bytes()


def test_a_gateway_has_as_many_threads_as_cpus(demo: Fleet) -> None:
    """Envoy alone would start one for each CPU of the node, 144 on a Grace node."""
    objects = render_region(demo, "us-east", "serving", Options())
    [gateway] = [
        o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", "gateway")
    ]
    container: dict[str, Any] = gateway["spec"]["template"]["spec"]["containers"][0]
    threads = container["args"][container["args"].index("--concurrency") + 1]
    assert threads == container["resources"]["requests"]["cpu"]
