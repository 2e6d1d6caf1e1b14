"""A step that changes what a region shares: its frontends and its gateway, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from rollout_site import REGION, REPLICAS, Rig

from fleet.release import release_id
from fleet.rollout.answers import Asked
from fleet.rollout.counters import Counts, PromptTokens
from fleet.rollout.record import Phase, Seen
from infra.rollout.driver import Result
from infra.rollout.endpoint import Endpoint
from infra.stack_events import Touched

MODEL = "moonshotai/Kimi-K3"


def deploy(rig: Rig, release: str | None = None) -> None:
    """Have the cluster run frontends and gateway of a release, all rolled out."""
    objects = rig.region.stack.fronting(release)
    rig.region.deployed = {
        name: {
            **item,
            "metadata": {**item["metadata"], "generation": 2},
            "spec": {"replicas": 2, **item["spec"]},
            "status": {"observedGeneration": 2, **dict.fromkeys(COUNTS, 2)},
        }
        for (kind, name), item in objects.items()
        if kind == "Deployment"
    }
    for item in rig.region.deployed.values():
        item["status"].update(dict.fromkeys(COUNTS, item["spec"]["replicas"]))


COUNTS = ("replicas", "updatedReplicas", "availableReplicas")


def front(rig: Rig) -> str:
    """Name the Deployment of the frontends, which is that of their set."""
    [name] = [name for name in rig.region.deployed if name.startswith("frontend")]
    return name


def frontend(name: str, *models: str) -> Endpoint:
    """Give a frontend that lists models."""
    page = json.dumps({"data": [{"id": model} for model in models]})
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, text=page))
    return Endpoint(name, "http://10.0.0.9:8000", httpx2.Client(transport=transport))


@pytest.fixture
def fronting(rig: Rig) -> Rig:
    """Give a region whose replicas have a release that also changes frontends and gateway."""
    old = rig.region.stack.fleet.release
    edge = old.edge.model_copy(update={"retries": 7})
    router = old.router.model_copy(update={"migration_limit": 9})
    new = old.model_copy(update={"name": "new", "edge": edge, "router": router})
    rig.region.stack.new = (release_id(new), new)
    rig.started = rig.started.model_copy(update={"new": release_id(new)})
    deploy(rig)
    rig.region.fronts = [frontend("f-1", MODEL), frontend("f-2", MODEL)]
    return rig


def do(rig: Rig, phase: Phase, **more: Any) -> Result:
    return rig.do(phase, shared=True, **more)


def test_no_replica_is_touched(fronting: Rig) -> None:
    """Neither its assignment nor its place in routing."""
    for phase in ("preflight", "drain", "assign"):
        assert do(fronting, phase).outcome == "ok"
    assert fronting.region.stack.assigned == {}
    assert fronting.region.stack.shared == fronting.started.new
    assert len(fronting.region.in_routing()) == len(REPLICAS)


def test_what_frontends_counted_is_kept(fronting: Rig) -> None:
    """New ones begin at zero, and their hit rate is compared with it."""
    tokens = PromptTokens(prompt=9e6, cached=8e6)
    fronting.region.counted = Counts(requests=400.0, errors=1.0, tokens=tokens)
    assert do(fronting, "preflight").seen == Seen(
        requests=400.0, errors=1.0, prompt_tokens=9e6, cached_tokens=8e6
    )


@pytest.mark.parametrize(
    ("operation", "kind", "name", "why"),
    [
        ("update", "Deployment", "frontend", ""),
        ("update", "Deployment", "gateway", ""),
        ("replace", "Deployment", "gateway", "replace Deployment"),
        ("delete", "Service", "frontend", "delete Service"),
        ("update", "LeaderWorkerSet", REPLICAS[0], "update LeaderWorkerSet"),
        ("create", "ConfigMap", "gateway-12345678", "create ConfigMap"),
        ("update", "Deployment", "loadtest-worker", "update Deployment"),
    ],
)
def test_only_frontends_and_gateway_may_change(
    fronting: Rig, operation: str, kind: str, name: str, why: str
) -> None:
    """The preview is looked at before anything is applied."""
    do(fronting, "assign")
    name = front(fronting) if name == "frontend" else name
    touched = Touched(operation=operation, kind=kind, name=f"{kind}/k3/{name}")
    fronting.region.stack.touched = (touched,)
    result = do(fronting, "apply")
    assert (why in result.why, result.outcome == "ok") == (True, not why)
    assert fronting.region.stack.done == ["preview False", *([] if why else ["up False"])]


@pytest.mark.parametrize("operation", ["create", "update", "delete"])
def test_their_files_may_change(fronting: Rig, operation: str) -> None:
    """What is read once comes and goes with its content, what is watched is changed in place."""
    names = {name for kind, name in fronting.region.stack.fronting() if kind == "ConfigMap"}
    do(fronting, "assign")
    fronting.region.stack.touched = tuple(
        Touched(operation=operation, kind="ConfigMap", name=f"ConfigMap/k3/{name}")
        for name in names
    )
    assert do(fronting, "apply").outcome == "ok"


def test_what_was_applied_has_to_be_there(fronting: Rig) -> None:
    """After a cancelled update Pulumi says unchanged, and the old ones run on."""
    do(fronting, "assign")
    result = do(fronting, "verify")
    assert result.outcome == "failed"
    assert f"{front(fronting)}: main: args is not the release's" in result.why
    deploy(fronting)
    assert do(fronting, "verify").outcome == "ok"


def test_all_pods_have_to_be_new_and_available(fronting: Rig) -> None:
    """An old pod serves as before, so that nobody sees a change that never comes."""
    do(fronting, "assign")
    deploy(fronting)
    status = fronting.region.deployed[front(fronting)]["status"]
    wanted = status["replicas"]
    status.update(replicas=wanted + 1, updatedReplicas=wanted)
    fronting.at(30.0, lambda: status.update(replicas=wanted))
    assert do(fronting, "ready").outcome == "ok"
    assert fronting.now_s >= 30.0
    status["observedGeneration"] = 1
    result = do(fronting, "ready")
    assert (result.outcome, "its change was not seen yet" in result.why) == ("failed", True)


def test_each_frontend_has_to_know_the_model(fronting: Rig) -> None:
    """Ready is said by a frontend that knows no replica, too."""
    do(fronting, "assign")
    deploy(fronting)
    fronting.region.fronts[1] = frontend("f-2")
    result = do(fronting, "registered")
    assert result.outcome == "failed"
    assert "frontend f-2 does not know the model, after the deadline" in result.why
    assert "routing" not in result.why  # no replica is to blame
    fronting.region.fronts[1] = frontend("f-2", MODEL)
    assert do(fronting, "registered").outcome == "ok"


def test_behind_new_frontends_answers_are_judged(fronting: Rig) -> None:
    """Replicas are asked through each of them; a leak there is a leak for everybody."""
    assert do(fronting, "smoke").outcome == "ok"
    fronting.region.answers = [Asked(answers=5, leaks=("frontend f-1: a marker",))]
    result = do(fronting, "smoke")
    assert (result.outcome, "a marker" in result.why) == ("failed", True)


def test_the_hit_rate_is_compared_with_what_was_before(fronting: Rig) -> None:
    """A router that scatters sessions is seen; that it has to learn them anew is no fault."""
    fronting.counted_before = Seen(
        requests=400.0, errors=0.0, prompt_tokens=9e6, cached_tokens=8.1e6
    )

    def count(cached: float) -> None:
        counted = fronting.region.counted
        fronting.region.counted = Counts(
            requests=counted.requests + 20.0,
            tokens=counted.tokens.plus(PromptTokens(prompt=100.0, cached=cached)),
        )

    gates = fronting.started.gates["canary"].model_copy(update={"hit_recovery_s": 20.0})
    fronting.started = fronting.started.model_copy(update={"gates": {"canary": gates}})
    for second in range(1, 12):
        fronting.at(3.0 * second, lambda: count(30.0))
    result = do(fronting, "gates")
    assert result.outcome == "failed", result.why
    assert "max_hit_dip of the region: +0.600" in result.why
    assert fronting.now_s >= 20.0
    for second in range(1, 12):
        fronting.at(fronting.now_s + 3.0 * second, lambda: count(90.0))
    assert do(fronting, "gates").outcome == "ok"


def test_what_somebody_changed_by_hand_is_left_alone(fronting: Rig) -> None:
    """Named, and put back only when somebody says so."""
    container = fronting.region.deployed[front(fronting)]["spec"]["template"]["spec"]["containers"][
        0
    ]
    container["image"] = "by-hand"
    result = do(fronting, "preflight")
    assert result.outcome == "inconclusive"
    what = f"frontends and gateway: {front(fronting)}: main"
    assert f"{REGION}: other than written down: {what}" in result.why
    fronting.overwrite = True
    assert do(fronting, "preflight").outcome == "ok"


def test_either_release_may_be_there_on_the_way(fronting: Rig) -> None:
    """A killed update may have left the one or the other, and the record is ahead of both."""
    deploy(fronting, fronting.started.new)
    assert do(fronting, "preflight").outcome == "ok"
