"""A rollout of a fleet that is known by its kubeconfig only: a lab plays the cluster.

Its pods' addresses are made real, so the API server's way to pods is the one of a real cluster.
What stays of the lab: engines are mocked, so they are told of the release, and asked what a mock
can say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from cli_runs import Here
from pod_network import shown_addresses
from rollout_lab import FILE, Lab, identity, lab_of, phase_s

from cli.provision_options import ground
from cli.provision_progress import ShownProgress
from cli.rollout_driving import begin
from cli.wiring import surroundings
from fleet.load import load_fleet
from fleet.rollout.record import Ended
from infra.provision.ground import FleetStacks
from infra.rollout.fleet_venue import FleetVenue
from infra.rollout.journal import Journal
from infra.rollout.machine import TIME
from infra.rollout.rollouts import Rollouts
from lab.questions import mocked_questions
from lab.rollout import LabVenue

pytestmark = pytest.mark.lab

FLEET = """\
apiVersion: k3fleet/v1
name: real
release: ./old.yaml
frontends: {replicas: 1}
regions:
  - name: east
    context: prod-east
    racks: [{id: e01, healthy_nodes: 4}]
"""
STRATEGY = """\
apiVersion: k3fleet/v1
waves:
  - {scope: rest, soak: 1s, gates: {min_requests: 5, min_replica_requests: 3}}
at_once: {per_rack: 1, per_region: 1, regions: 1}
floor: {rack: 0.5, region: 0.5}
deadlines: {ready: 45s, registered: 30s, gates: 60s}
reruns: 0
"""
RELEASES = {
    "old": {"drain_s": "30s", "max_num_seqs": 64},
    "batch": {"drain_s": "30s", "max_num_seqs": 48},
}
OPTIONS = {
    "regions": (),
    "output": "json",
    "yes": True,
    "fault": None,
    "take_over": False,
    "events": None,
}


@dataclass(frozen=True)
class Real:
    """The fleet as its operators have it: a file, a work folder, a kubeconfig."""

    lab: Lab
    folder: Path
    kubeconfig: Path
    rollouts: Rollouts


@pytest.fixture(scope="module")
def real(shared: Here) -> Iterator[Real]:
    """Bring a region up, and take all that is known of its lab away."""
    with lab_of(shared, FLEET, STRATEGY, RELEASES) as lab:
        host = urlsplit(lab.told["regions"]["east"]["gateway_url"]).hostname or ""
        with shown_addresses(int(host.split(".")[1])):
            yield _real(shared, lab)


def _real(shared: Here, lab: Lab) -> Real:
    fleet = load_fleet(shared.folder / FILE)
    content = yaml.safe_load(lab.clusters[0].kubeconfig.read_text())
    content["contexts"][0]["name"] = "prod-east"
    elsewhere = {"cluster": "elsewhere", "user": content["users"][0]["name"]}
    content["contexts"].append({"name": "elsewhere", "context": elsewhere})
    content["clusters"].append({"name": "elsewhere", "cluster": {"server": "https://127.0.0.1:1"}})
    content["current-context"] = "elsewhere"  # what an operator looked at last does not matter
    kubeconfig = shared.folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    work_dir = shared.folder / "real"
    work_dir.mkdir()
    (work_dir / "stacks").symlink_to(shared.work_dir / "lab" / "pulumi")
    where = {"work_dir": work_dir, "kubeconfig": kubeconfig}
    stacks = FleetStacks.of(fleet, ground(fleet, where, ShownProgress(sys.stderr)))
    mocks = LabVenue.of(fleet, surroundings(fleet, shared.work_dir))
    venue = FleetVenue.of(stacks, mocked_questions(fleet.model.repo, TIME.now))
    rollouts = Rollouts(venue=replace(venue, hears=mocks.announce))
    return Real(lab=lab, folder=work_dir, kubeconfig=kubeconfig, rollouts=rollouts)


def test_a_rollout_goes_through_the_api_server_alone(shared: Here, real: Real) -> None:
    """Under requests: streams are counted, questions asked and gates judged behind its proxy."""
    before = real.lab.leaders()
    options = {**OPTIONS, "strategy_file": shared.folder / "strategy.yaml"}
    with real.lab.watched() as seen:
        code = begin(real.rollouts, "./batch.yaml", options, good="done")
    record = real.folder / "rollouts/0001.jsonl"
    entries = [one for one in Journal(record).read() if isinstance(one, Ended)]
    assert code == 0, entries
    assert set(real.lab.releases().values()) == {identity(shared, "batch")}
    assert {name: len(uids) for name, uids in seen.pods.items()} == dict.fromkeys(before, 2)
    assert seen.fewest == {"east": 1}
    assert seen.faults == []
    drained = [one.why for one in entries if one.phase == "drain"]
    assert drained == ["", ""]  # the engines have said that no stream is left
    assert 2 < phase_s(record, "drain") < 30
    smoked = [one.why for one in entries if one.phase == "smoke"]
    assert all("answers" in why for why in smoked), smoked


def test_other_working_copies_see_it_and_cannot_drive_without_the_state(
    shared: Here, real: Real
) -> None:
    """The record is in the cluster; the stack's state is where its fleet file says."""
    words = (FILE, "--kubeconfig", str(real.kubeconfig))
    seen = shared.run("rollout", "status", *words, "-o", "json")
    assert seen.code == 0, seen.err
    told = json.loads(seen.out)
    assert (told["rollout"], told["status"], told["drivers"]) == (1, "done", [])
    assert [row["state"] for row in told["replicas"]] == ["serves", "serves"]
    past = shared.run("history", *words, "-o", "json")
    assert [one["number"] for one in json.loads(past.out)] == [1], past.err
    start = shared.run("rollout", "start", words[0], "./old.yaml", "--yes", *words[1:])
    assert (start.code, "was not brought up from this state" in start.err) == (3, True), start.err
