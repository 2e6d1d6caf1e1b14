"""What is read of a region's frontends and engines while a release is judged."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from rack_world import RackWorld, cluster_of
from rollout_site import pods_of

from fleet.load import load_release
from fleet.release import Release
from fleet.rollout.answers import Asked
from fleet.rollout.counters import FirstTokens, PromptTokens
from infra.engine import SYSTEM_PORT
from infra.frontend import PORT as FRONTEND_PORT
from infra.rollout.checks import EnginePod
from infra.rollout.endpoint import Endpoint
from infra.rollout.region import MOST_OTHERS, Questions, SiteRegion, evenly

RELEASE = load_release("vllm-tp8-dcp8", beside=Path("here"))
HTTP = httpx2.Client(trust_env=False)

FRONTEND = """\
dynamo_frontend_requests_total{error_type="",status="success"} 90
dynamo_frontend_input_sequence_tokens_sum{model="m"} 1000
dynamo_frontend_cached_tokens_sum{model="m"} 600
"""
ENGINE = """\
vllm:time_to_first_token_seconds_sum{engine="0"} 0.75
vllm:time_to_first_token_seconds_count{engine="0"} 37
"""


@dataclass
class Cluster:
    """Replicas by release; each address leads to one machine of a test."""

    host: str
    releases: Mapping[str, str]
    region: str = "east"
    lost: set[str] = field(default_factory=set)  # addresses that lead nowhere

    def engines(self) -> list[EnginePod]:
        return [
            replace(pod, address=f"10.0.0.{number}")
            for number, (name, release) in enumerate(self.releases.items())
            for pod in pods_of(name, release)
        ]

    def frontends(self, _set: str = "") -> tuple[Endpoint, ...]:
        return (Endpoint("frontend", f"http://{self.host}:{FRONTEND_PORT}", HTTP),)

    def workers(self) -> Mapping[str, str]:
        return {f"{name}-0": str(number) for number, name in enumerate(self.releases)}

    def endpoint(self, pod: str, address: str, port: int) -> Endpoint:
        host = "127.0.0.1" if address in self.lost else self.host
        return Endpoint(pod, f"http://{host}:{port}", HTTP)


@contextmanager
def pages(port: int, text: str, host: str) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def region(cluster: Cluster, probe: Any = None) -> SiteRegion:
    class Stack:
        def release(self, identity: str) -> Release:
            return RELEASE.model_copy(update={"name": identity})

    return SiteRegion(
        cluster=cluster,  # type: ignore[arg-type]
        stack=Stack(),  # type: ignore[arg-type]
        racks=dict.fromkeys(cluster.releases, "r"),
        questions=Questions(
            ask=lambda _at, _worker: True,
            probe=probe or (lambda _at, _worker, _release: Asked()),
        ),
    )


def own_host() -> str:
    return f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250) + 1}.7"


def test_a_reading_has_the_steps_replicas_apart_from_those_of_another_release() -> None:
    """One that has the new release already is neither; what does not answer is left out."""
    cluster = Cluster(own_host(), {"a": "new", "b": "old", "c": "old", "d": "new"})
    cluster.lost = {"10.0.0.2"}
    with (
        pages(SYSTEM_PORT, ENGINE, cluster.host),
        pages(FRONTEND_PORT, FRONTEND, cluster.host),
    ):
        found = region(cluster).reading(["a"], "new", 5.0)
    assert found.at_s == 5.0
    assert (list(found.new), list(found.old)) == (["a-new"], ["b-old"])
    assert found.new["a-new"].first_tokens == FirstTokens(answers=37, seconds=0.75)
    [counts] = found.frontends.values()
    assert (counts.requests, counts.tokens) == (90, PromptTokens(prompt=1000, cached=600))


def test_of_many_others_some_from_everywhere_are_read() -> None:
    """Ninety pages every two seconds would be a load of its own; always the same sixteen."""
    pods = [pods_of(f"r{number:03}", "old")[0] for number in range(90)]
    some = evenly(pods, MOST_OTHERS)
    assert len({pod.replica for pod in some}) == MOST_OTHERS
    assert (some[0].replica, some[-1].replica) == ("r000", "r084")
    assert evenly(list(reversed(pods)), MOST_OTHERS) == some
    assert evenly(pods[:3], MOST_OTHERS) == pods[:3]
    assert evenly([], MOST_OTHERS) == []


def test_each_replica_of_the_step_is_asked_by_its_own_worker() -> None:
    """And its findings carry its name."""
    asked = []

    def probe(at: Endpoint, worker: str, release: Release) -> Asked:
        asked.append((at.url, worker, release.name))
        return Asked(answers=5, leaks=("plain: <|sep|>",))

    cluster = Cluster("127.0.0.9", {"a": "new", "b": "old", "c": "new"})
    found = region(cluster, probe).probed(["a", "c"], "new")
    url = f"http://127.0.0.9:{FRONTEND_PORT}"
    assert asked == [(url, "0", "new"), (url, "2", "new")]
    assert found == Asked(answers=10, leaks=("a: plain: <|sep|>", "c: plain: <|sep|>"))


def test_model_cards_and_weights_are_read_as_the_api_server_has_them() -> None:
    """A card is that of the serving endpoint; a parked replica is known by its object."""
    world = RackWorld()
    world.fill("r01", 4, 2)
    card = {"kv_cache_block_size": 128}
    data = {
        "endpoints": {},
        "model_cards": {
            "x/generate/1": {"endpoint": "generate", "card_json": card},
            "x/encode/1": {"endpoint": "encode", "card_json": {"kv_cache_block_size": 1}},
        },
    }
    item = {"metadata": {"name": "r01-0-0"}, "spec": {"data": data}}
    world._workers = lambda: [item]  # type: ignore[method-assign]
    world.get("/api/v1/nodes", "r01-n01")["metadata"]["labels"]["weights.k3fleet.io/a"] = "ready"
    cluster = cluster_of(world)
    assert cluster.cards() == {"r01-0-0": card}
    assert cluster.node_labels()["r01-n01"]["weights.k3fleet.io/a"] == "ready"
    assert cluster.parked() == frozenset()


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"data": None},
        {"data": {"endpoints": {"x": {}}, "model_cards": {"x": "text"}}},
        {"data": {"endpoints": ["x"], "model_cards": ["x"]}},
        {"data": {"endpoints": {"x": {"endpoint": "generate"}}, "model_cards": {"x": {}}}},
        {"data": {"endpoints": {"x": None}, "model_cards": {"x": {"card_json": "{}"}}}},
    ],
    ids=str,
)
def test_a_worker_that_registers_in_another_way_serves_not(spec: dict[str, object]) -> None:
    """A new Dynamo may write it; a driver that ends at it could not turn the replica back."""
    world = RackWorld()
    world.fill("r01", 4, 2)
    world._workers = lambda: [{"metadata": {"name": "r01-0-0"}, "spec": spec}]  # type: ignore[method-assign]
    cluster = cluster_of(world)
    assert cluster.workers() == {}
    assert cluster.cards() in ({}, {"r01-0-0": {}})
