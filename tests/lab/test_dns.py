"""The cluster DNS leads to the ready pods of a headless Service, on loopback, and nowhere else."""

from __future__ import annotations

import socket
import threading

import dns.exception
import dns.message
import dns.query
import dns.rcode
import pytest
import stamina
from lab_builders import pod
from lab_fakes import FakeApi, FakeStore
from lightkube.resources.core_v1 import Service

from lab.dns import ClusterDns

NAME = "frontend.k3.svc.cluster.local"
SELECTOR = {"app": "frontend"}


@pytest.fixture
def store() -> FakeStore:
    found = FakeStore()
    found.put(pod("f0", labels=SELECTOR, address="10.64.0.11"))
    found.put(pod("f1", labels=SELECTOR, address="10.64.0.12", ready=False))
    found.put(pod("f2", labels=SELECTOR, address="10.64.0.13", deleting=True))
    found.put(pod("e0", labels={"app": "engine"}, address="10.64.0.14"))
    return found


@pytest.fixture
def names(store: FakeStore) -> ClusterDns:
    api = FakeApi()
    service = {"metadata": {"name": "frontend"}, "spec": {"selector": SELECTOR}}
    api.create(Service.from_dict(service))
    return ClusterDns(api, "k3", store)  # type: ignore[arg-type]


def test_only_ready_pods_are_named(names: ClusterDns):
    """The gateway must not send to a frontend that is starting or on its way out."""
    assert names.addresses(NAME) == ("127.64.0.11",)


@pytest.mark.parametrize("name", ["frontend", "frontend.other.svc.cluster.local", "example.org"])
def test_other_names_do_not_exist(names: ClusterDns, name: str):
    """The lab never asks the machine's resolver, so nothing of it leaves the machine."""
    assert names.addresses(name) is None


def test_an_unknown_service_does_not_exist(names: ClusterDns):
    """A typo in the gateway's file has to fail as in a cluster."""
    assert names.addresses("fronted.k3.svc.cluster.local") is None


def ask(name: str, port: int) -> dns.message.Message:
    """Ask until there is an answer: what comes before the server listens is lost."""
    for attempt in stamina.retry_context(on=dns.exception.Timeout, attempts=None, timeout=30):
        with attempt:
            return dns.query.udp(dns.message.make_query(name, "A"), "127.0.0.1", 1, port)
    raise AssertionError("not reached: the last attempt raises")


def test_queries_are_answered_over_udp_and_garbage_is_survived(names: ClusterDns):
    """Envoy's resolver speaks the protocol; anything on loopback may send anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stop = threading.Event()
    server = threading.Thread(target=names.serve, args=("127.0.0.1", port, stop))
    server.start()
    try:
        known = ask(NAME, port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hostile:
            hostile.sendto(b"\x00", ("127.0.0.1", port))
        unknown = ask("x.y", port)
    finally:
        stop.set()
        server.join()
    assert [str(item) for item in known.answer[0]] == ["127.64.0.11"]
    assert unknown.rcode() == dns.rcode.NXDOMAIN
