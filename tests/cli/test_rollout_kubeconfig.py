"""Rollouts of a fleet that is known by a kubeconfig: which clusters, and may they be touched?"""

from __future__ import annotations

from pathlib import Path

import pytest
from provision_place import Place

from cli.main import main
from fleet.load import load_fleet

STRATEGY = "apiVersion: k3fleet/v1\nfloor: {rack: 0.5, region: 0.5}\n"
MINE = "extends: vllm-tp8-dcp8\nname: mine\nmax_num_seqs: 48\n"
OUTPUT = "serving-us-east output"


@pytest.fixture
def rolling(place: Place) -> Place:
    """Give a fleet that is up, whose cluster has no rollout yet."""
    (place.folder / "mine.yaml").write_text(MINE)
    place.cluster.namespace("k3", fleet="demo", region="us-east")
    for kind in ("ConfigMap", "Lease", "Pod"):
        group = "/apis/coordination.k8s.io/v1" if kind == "Lease" else "/api/v1"
        path = f"{group}/namespaces/k3/{kind.lower()}s"
        place.cluster.objects[path] = {"kind": f"{kind}List", "items": []}
    (place.folder / "strategy.yaml").write_text(STRATEGY)
    place.brought_up()
    deployed(place)
    assert run(place, "rollout", "sync", str(place.fleet)) == 0, place.err
    return place


def deployed(place: Place, **more: object) -> None:
    """Say what the stack's last update brought."""
    fleet = load_fleet(place.fleet)
    values = {
        "serial": 0,
        "releases": place.releases(fleet.release_id),
        "cluster_uid": "uid-of-kube-system",
    }
    place.pulumi.answer({OUTPUT: place.outputs(**{**values, **more})})


def run(place: Place, *words: str) -> int:
    code = main([*words])
    place.out, place.err = place.capture.readouterr()
    return code


def start(place: Place, *more: str) -> int:
    words = ("mine.yaml", "--strategy", "strategy.yaml", *more)
    return run(place, "rollout", "start", str(place.fleet), *words)


def test_all_is_checked_and_the_plan_shown_before_it_is_asked(rolling: Place) -> None:
    """Without --yes nothing is written: no assignment, no record, no update."""
    assert start(rolling) == 3
    assert "Give --yes" in rolling.err
    assert "kubeconfig: us-east in us-east" in rolling.err
    assert "us-east-r01-1" in rolling.out
    assert not list((rolling.folder / ".k3fleet").rglob("0001.jsonl"))
    assert not rolling.pulumi.asked("up", "preview")


def test_who_cannot_be_told_is_known_before_the_rollout_is_begun(
    rolling: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is written down, and refused with the exit code of a wrong file."""
    assert start(rolling, "--yes", "--events", "none/events.jsonl") == 3
    assert "--events none/events.jsonl: cannot be written" in rolling.err
    monkeypatch.setenv("K3FLEET_WEBHOOK", "T00/secret")
    assert start(rolling, "--yes") == 3
    assert "K3FLEET_WEBHOOK: is no http" in rolling.err
    assert "secret" not in rolling.err
    assert not list((rolling.folder / ".k3fleet").rglob("0001*"))


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"cluster_uid": "another"}, 11, "its stack is of cluster another"),
        ({"releases": {"us-east-r01-0": "other-1"}}, 12, "would change from release other-1"),
        ({"serial": 4}, 3, "k3fleet rollout sync"),
    ],
)
def test_what_is_not_as_the_stack_says_is_left_alone(
    rolling: Place, more: dict[str, object], code: int, said: str
) -> None:
    """Another cluster, another fleet file, an older working copy."""
    deployed(rolling, **more)
    assert start(rolling) == code
    assert said in rolling.err


def test_pods_that_are_not_reached_are_found_before_a_canary_is_taken_away(rolling: Place) -> None:
    """The API server's requests come from elsewhere than the peers that policies name."""
    metadata = {
        "name": "us-east-r01-0-0",
        "namespace": "k3",
        "uid": "1",
        "labels": {
            "k3fleet.io/replica": "us-east-r01-0",
            "leaderworkerset.sigs.k8s.io/worker-index": "0",
        },
    }
    ready = {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = {"kind": "PodList", "items": [{"metadata": metadata, "status": ready}]}
    rolling.cluster.objects["/api/v1/namespaces/k3/pods"] = pods
    assert start(rolling, "--yes") == 11
    assert "get through to us-east-r01-0-0" in rolling.err
    page = "/api/v1/namespaces/k3/pods/us-east-r01-0-0:9090/proxy/metrics"
    frontend = "/api/v1/namespaces/k3/pods/us-east-r01-0-0:8000/proxy/metrics"
    rolling.cluster.objects |= {page: {"any": "page"}, frontend: {"any": "page"}}
    assert start(rolling) == 3
    assert "Give --yes" in rolling.err


def test_who_may_not_ask_pods_is_told_before_a_canary_is_taken_away(rolling: Place) -> None:
    """Reading pages takes another right than asking questions."""
    rolling.cluster.allows = False
    assert start(rolling, "--yes") == 11
    assert "may not `create` `pods/proxy`" in rolling.err


def test_a_stack_that_is_not_in_the_state_is_not_made_up(rolling: Place) -> None:
    """A second working copy whose state lies in the first one's folder."""
    (rolling.stacks / "state/.pulumi/stacks/k3fleet-serving/serving-us-east.json").unlink()
    assert start(rolling) == 3
    assert "was not brought up from this state" in rolling.err


def test_a_namespace_of_another_fleet_is_not_even_read(rolling: Place) -> None:
    """Its records would be taken for ours."""
    rolling.cluster.namespace("k3", fleet="theirs", region="us-east")
    for words in (["rollout", "status"], ["history"]):
        assert run(rolling, *words, str(rolling.fleet)) == 11
        assert "of fleet theirs" in rolling.err


def test_what_was_and_is_deployed_is_said_without_a_lab(rolling: Place) -> None:
    """A second working copy gets the serial that is deployed."""
    deployed(rolling, serial=4)
    assert run(rolling, "history", str(rolling.fleet)) == 0
    assert "no rollout was started" in rolling.out
    assert run(rolling, "rollout", "sync", str(rolling.fleet), "-o", "json") == 0, rolling.err
    assert '"after": 4' in rolling.out
    assert start(rolling) == 3
    assert "Give --yes" in rolling.err


def test_a_fault_is_rehearsed_in_a_lab_only(rolling: Place) -> None:
    """Real engines are what they are."""
    assert start(rolling, "--yes", "--fault", "leaks") == 3
    assert "in a lab only" in rolling.err


def test_one_place_is_named(rolling: Place, tmp_path: Path) -> None:
    """A lab or a kubeconfig."""
    words = ("--lab", str(tmp_path), "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert run(rolling, "rollout", "status", str(rolling.fleet), *words) == 3
    assert "one of them says where" in rolling.err
