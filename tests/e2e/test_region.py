"""The lab runs the region that the charts render, whatever the engine of its release is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Here
from lab_region import Object, Region, address, named

from fleet.plan import make_plan
from infra.rollout.cluster import worker_ids
from infra.values import region_plan
from verify.smoke import chat_answers, listed_models, worker_answers

pytestmark = pytest.mark.lab

FLEET = """\
apiVersion: k3fleet/v1
name: small
release: RELEASE
frontends: {replicas: 2}
router: {policy: {router: {router_predicted_ttl_secs: 5.0}}}
regions:
  - name: here
    racks:
      - {id: r01, healthy_nodes: 7}
"""


@pytest.fixture(scope="module", params=["vllm-tp8-dcp8", "sglang-tp8", "vllm-pd-2p1d"])
def region(shared: Here, request: pytest.FixtureRequest) -> Iterator[Region]:
    """Bring up three replicas of a release."""
    fleet = shared.folder / "fleet.yaml"
    fleet.write_text(FLEET.replace("RELEASE", request.param))
    ended = shared.run("lab", "up", str(fleet), "-o", "json")
    assert ended.code == 0, ended.err
    yield Region(shared, json.loads(ended.out))
    assert shared.run("lab", "down", str(fleet)).code == 0


def roles(region: Region) -> dict[str, str]:
    """Name the job of each replica, as the plan has it."""
    return dict(region_plan(make_plan(region.fleet), region.name).roles)


def workers(region: Region) -> dict[str, str]:
    """Read which Dynamo worker each replica has registered."""
    found = {}
    for item in region.kubectl("dynamoworkermetadatas"):
        for worker in worker_ids(item["spec"]["data"]):  # a frontend's own entry has none
            found[item["metadata"]["name"].removesuffix("-0")] = worker
    return found


def mounted(container: Object, volumes: list[Object]) -> dict[str, str]:
    """Map where a container's config maps are mounted to their names."""
    maps = {v["name"]: v["configMap"]["name"] for v in volumes if "configMap" in v}
    mounts = container.get("volumeMounts", ())
    return {m["mountPath"]: maps[m["name"]] for m in mounts if m["name"] in maps}


def words(deployment: Object, pod: Object) -> tuple[Object, list[str]]:
    """Give a deployment's pod spec and its command line with the pod's address filled in."""
    spec: Object = deployment["spec"]["template"]["spec"]
    container = spec["containers"][0]
    rendered = [*container["command"], *container["args"]]
    return spec, [word.replace("$(POD_IP)", address(pod)) for word in rendered]


def test_every_replica_is_ready(region: Region) -> None:
    """Both its pods, with the release that the fleet file names."""
    sets = region.kubectl("leaderworkersets")
    assert [(s["metadata"]["name"], s["status"]["readyReplicas"]) for s in sets] == [
        (name, 1) for name in sorted(roles(region))
    ]
    pods = region.pods("engine")
    ready = [{c["type"]: c["status"] for c in pod["status"]["conditions"]} for pod in pods]
    assert [conditions["Ready"] for conditions in ready] == ["True"] * 2 * len(sets)
    labels = {pod["metadata"]["labels"]["k3fleet.io/release"] for pod in pods}
    assert labels == {region.fleet.release_id}


def test_every_frontend_knows_every_replica(region: Region) -> None:
    """Each is asked by its worker id, so that no other can answer in its place."""
    known, jobs, model = workers(region), roles(region), region.fleet.model.repo
    assert known.keys() == jobs.keys()
    prefill = [known[name] for name, job in jobs.items() if job == "prefill"]
    for pod in region.pods("frontend"):
        url = f"http://{address(pod)}:8000"
        for name, job in jobs.items():
            if job != "prefill":
                for partner in prefill or [None]:
                    assert worker_answers(url, model, known[name], partner), (url, name, partner)


def test_the_gateway_answers(region: Region) -> None:
    """What a client sees."""
    model = region.fleet.model.repo
    assert listed_models(region.gateway_url) == (model,)
    assert chat_answers(region.gateway_url, model)


@pytest.mark.parametrize("app", ["frontend", "gateway"])
def test_processes_have_the_rendered_arguments(region: Region, app: str) -> None:
    """A flag that only the lab adds, or leaves out, would be rehearsed and not launched."""
    deployment = region.deployment(app)
    pods = region.pods(app)
    assert len(pods) == deployment["spec"]["replicas"]
    for pod in pods:
        spec, rendered = words(deployment, pod)
        running = region.process(pod).cmdline()
        program, *arguments = rendered
        assert Path(running[0]).name in {program, "python"}  # the interpreter has its own path
        places = mounted(spec["containers"][0], spec["volumes"])
        assert [
            word if Path(word).parent.as_posix() not in places else Path(word).name
            for word in arguments
        ] == [
            Path(word).name if word.startswith(str(region.here.folder)) else word
            for word in running[1:]
        ]


@pytest.mark.parametrize("app", ["frontend", "gateway"])
def test_processes_read_the_rendered_files(region: Region, app: str) -> None:
    """Byte for byte, as rendered and as the API server has them."""
    deployment = region.deployment(app)
    stored = {item["metadata"]["name"]: item["data"] for item in region.kubectl("configmaps")}
    for pod in region.pods(app):
        spec, rendered = words(deployment, pod)
        running = region.process(pod).cmdline()
        places = mounted(spec["containers"][0], spec["volumes"])
        read = 0
        for word, path in zip(rendered, running, strict=True):
            config_map = places.get(Path(word).parent.as_posix())
            if config_map is not None:
                text: str = named(region.rendered, "ConfigMap", config_map)["data"][Path(word).name]
                assert Path(path).read_bytes() == text.encode()
                assert stored[config_map][Path(word).name] == text
                read += 1
        assert read == 1


def test_engines_are_told_their_job(region: Region) -> None:
    """Mocked as they are, they split the work as the release does."""
    told: dict[str, Any] = {}
    for pod in region.pods("engine"):
        labels = pod["metadata"]["labels"]
        if labels["leaderworkerset.sigs.k8s.io/worker-index"] == "0":
            argv = region.process(pod).cmdline()
            mode = "--disaggregation-mode"
            job = argv[argv.index(mode) + 1] if mode in argv else "aggregated"
            told[labels["k3fleet.io/replica"]] = job
    assert told == roles(region)
