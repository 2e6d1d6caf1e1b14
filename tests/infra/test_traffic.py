"""A region's sessions go to another one: in the API server, and in the Envoy that sends them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from gateway_rig import Frontend, Rig, envoy_file, running, sets_files, show
from rollout_objects import FakeObjects, FakeTime

from fleet.errors import ApplyError
from fleet.load import Fleet, load_fleet
from fleet.release_set import release_set
from fleet.rollout.strategy import Assumed, Floor
from fleet.traffic_shift import TOTAL_WEIGHT, Pacing, Shift, Side, plan_shift
from infra.gateway import SETS_ANNOTATION, SETS_MAP, TRAFFIC_MAP, cluster_of
from infra.render import render_region
from infra.rollout.objects import ChangedError, Kind, Object
from infra.rollout.waiting import Waiter
from infra.traffic import Mover, Receiver, RegionTraffic, settings

FLEET = """\
apiVersion: k3fleet/v1
name: two
release: vllm-tp8-dcp8
regions:
  - name: us-east
    gateway_address: 127.0.0.1:1
    racks: [{id: use1-r01}]
  - name: us-west
    gateway_address: PEER:8000
    racks: [{id: usw1-r01}]
"""
SESSIONS = [f"session-{number}" for number in range(100)]


def known_sets(*clusters: str) -> FakeObjects:
    """Give a region whose gateways know some sets."""
    objects = FakeObjects()
    metadata = {"name": SETS_MAP, "annotations": {SETS_ANNOTATION: " ".join(clusters)}}
    objects.write("ConfigMap", {"metadata": metadata})
    return objects


@dataclass
class Moving:
    """A shift of nine replicas' sessions, and a receiver that may be ill."""

    objects: FakeObjects = field(default_factory=lambda: known_sets("set-a"))
    time: FakeTime = field(default_factory=FakeTime)
    serving: int = 9
    said: list[str] = field(default_factory=list)

    @property
    def traffic(self) -> RegionTraffic:
        return RegionTraffic(objects=self.objects)

    def shift(self, target: int = TOTAL_WEIGHT) -> Shift:
        nine = Side(name="r", replicas=9)
        weight = self.traffic.weight()
        return plan_shift(
            nine, nine, Assumed(), pacing=Pacing(prefill_share=0.25), weight=weight, target=target
        )

    def mover(self) -> Mover:
        return Mover(
            traffic=self.traffic,
            receivers=(Receiver(name="west", replicas=9, serving=lambda: self.serving),),
            floor=Floor(region=0.85),
            waiter=Waiter(
                clock=lambda: self.time.seconds, pause=self.time.pause, stop=lambda: False
            ),
            say=self.said.append,
        )


def test_slices_are_written_one_after_the_other_in_their_time() -> None:
    """The last is everything; both weights change in one write."""
    rig = Moving()
    shift = rig.shift()
    rig.mover().move(shift)
    assert rig.traffic.weight() == TOTAL_WEIGHT
    assert rig.time.seconds == pytest.approx(shift.total_s)
    assert len(rig.said) == len(shift.slices) == 20
    item = rig.objects.get("ConfigMap", "gateway-traffic")
    assert item is not None
    assert item["data"] == {
        "sessions.elsewhere": "1000",
        "sessions.set-a": "0",
        "shares.set-a": "1000",
    }


def test_a_dead_regions_sessions_move_at_once() -> None:
    """Nobody is asked how well he is: there is no other place for them."""
    rig = Moving(serving=1)
    rig.mover().move(rig.shift(), paced=False)
    assert (rig.traffic.weight(), rig.time.seconds) == (TOTAL_WEIGHT, 0.0)


def test_no_more_is_sent_to_who_has_lost_replicas() -> None:
    """It stays where it is; the same command goes on from there."""
    rig = Moving()
    rig.time.later.append((1000.0, lambda: setattr(rig, "serving", 7)))
    with pytest.raises(ApplyError, match="west: 7 of 9 replicas serve, the floor is 8"):
        rig.mover().move(rig.shift())
    left = rig.traffic.weight()
    assert 0 < left < TOTAL_WEIGHT
    rig.serving = 9
    rig.mover().move(rig.shift())
    assert rig.traffic.weight() == TOTAL_WEIGHT
    rig.mover().move(rig.shift(target=0))
    assert rig.traffic.weight() == 0


def test_what_is_no_weight_is_named() -> None:
    """Somebody wrote it by hand; Envoy would take it as nothing."""
    rig = Moving()
    rig.traffic.send(5)
    rig.objects.merge("ConfigMap", "gateway-traffic", {"data": {"sessions.elsewhere": "lots"}})
    with pytest.raises(ApplyError, match="says 'lots'"):
        rig.traffic.weight()


@dataclass
class Edge:
    """A gateway, the gateway of another region, and what says how much goes there."""

    rig: Rig
    peer: Frontend
    folder: Path
    cluster: str

    def tell(self, weight: int) -> None:
        show(self.folder, settings({self.cluster: TOTAL_WEIGHT}, weight))

    def moved(self) -> set[str]:
        return {name for name in SESSIONS if self.rig.owner(name) == self.peer.address}

    def until(self, weight: int) -> set[str]:
        """Tell, and give the sessions that went once some count of them changed."""
        before = self.moved()
        self.tell(weight)
        self.rig.wait(lambda: self.moved() != before)
        return self.moved()


def two_regions(folder: Path, peer: str) -> Fleet:
    (folder / "fleet.yaml").write_text(FLEET.replace("PEER", peer))
    return load_fleet(folder / "fleet.yaml")


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    """Start a gateway whose pod has no ConfigMap of traffic yet."""
    peer = Frontend(address=f"127.{secrets.randbelow(200) + 20}.9.9")
    server = peer.start()
    fleet = two_regions(tmp_path, peer.address)
    with running(fleet, tmp_path) as rig:
        rig.key = ""
        yield Edge(rig, peer, tmp_path / "traffic", cluster_of(release_set(fleet.release)))
    server.shutdown()


def test_a_part_of_the_sessions_goes_elsewhere_and_stays_there(edge: Edge) -> None:
    """A larger part only adds to it, and what comes back is what came last: no session is moved
    twice, each of which would be another whole context."""
    assert edge.moved() == set()
    some = edge.until(300)
    assert 0.15 < len(some) / len(SESSIONS) < 0.45
    assert edge.moved() == some
    more = edge.until(600)
    assert some < more
    assert edge.until(300) == some
    assert edge.until(TOTAL_WEIGHT) == set(SESSIONS)
    assert edge.until(0) == set()


def test_what_came_from_another_region_is_not_sent_on(edge: Edge) -> None:
    """Two regions that are both drained would send it round for ever."""
    edge.until(TOTAL_WEIGHT)
    status, body = edge.rig.call(
        "POST", "/v1/chat/completions", b"x", "session-1", **{"X-K3fleet-From": "us-west"}
    )
    assert status == 200
    assert body["by"] in {frontend.address for frontend in edge.rig.frontends}


def test_a_fleet_whose_gateways_say_no_address_has_nothing_of_it(demo: Fleet) -> None:
    """Nobody else would take what they send."""
    assert "elsewhere" not in envoy_file(demo)
    assert "elsewhere" not in sets_files(demo)["routes.yaml"]


def test_the_pod_starts_without_the_config_map(tmp_path: Path) -> None:
    """It is written when a region is drained first."""
    fleet = two_regions(tmp_path, "10.0.0.2")
    [pod] = [
        item["spec"]["template"]["spec"]
        for item in render_region(fleet, "us-east", "serving")
        if item["kind"] == "Deployment" and item["metadata"]["name"] == "gateway"
    ]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "traffic"]
    assert volume["configMap"] == {"name": "gateway-traffic", "optional": True}
    config = yaml.safe_load(envoy_file(fleet))
    [cluster] = [c for c in config["static_resources"]["clusters"] if c["name"] == "elsewhere"]
    [end] = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    address = end["endpoint"]["address"]["socket_address"]
    assert address == {"address": "10.0.0.2", "port_value": 8000}


@pytest.mark.parametrize("text", ["²", "-1", "1000001", "9" * 5000, "1.0"])
def test_a_part_that_is_none_is_named(text: str) -> None:
    """Somebody edited it; nothing is guessed about where sessions are."""
    objects = known_sets("set-a")
    RegionTraffic(objects=objects).send(5)
    key = next(iter(settings({}, 5)))
    objects.merge("ConfigMap", TRAFFIC_MAP, {"data": {key: text}})
    with pytest.raises(ApplyError, match="which is no part of the sessions"):
        RegionTraffic(objects=objects).weight()


@dataclass
class Contended(FakeObjects):
    """Somebody writes between our reading and our writing, some times."""

    others: int = 0

    def write(self, kind: Kind, item: Object) -> Object:
        if item["metadata"]["name"] == TRAFFIC_MAP and self.others:
            self.others -= 1
            raise ChangedError(TRAFFIC_MAP)
        return super().write(kind, item)


def test_who_writes_at_the_same_moment_ends_no_driver() -> None:
    """A label that was added is no reason; somebody who goes on is one, and is said."""
    objects = Contended(items=known_sets("set-a").items, others=1)
    RegionTraffic(objects=objects).send(5)
    assert RegionTraffic(objects=objects).weight() == 5
    objects.others = 100
    with pytest.raises(ApplyError, match="somebody else goes on writing"):
        RegionTraffic(objects=objects).send(6)
