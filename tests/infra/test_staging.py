"""The weights stage: the script for real, against a fake hub, and what is rendered for it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import FakeHub, FakeNode
from patience import wait_until

from fleet.errors import ConfigError
from fleet.load import Fleet
from infra.options import Layer, Options
from infra.render import CHARTS, KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SCRIPT = CHARTS / "platform/stage-weights.py"
PREFIX = "weights.k3fleet.io/"
REPO, DRAFT = "moonshotai/Kimi-K3", "RadixArk/Kimi-K3-DSpark"
FILES = {"config.json": b"{}", "a.safetensors": b"a" * 5000, "deep/b.safetensors": b"b" * 7000}
LABELS = {"k3fleet.io/rack": "use1-r01", PREFIX + "gone": "ready"}


class Stage:
    """The script on one node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "weights"
        self.root.mkdir()
        (folder / "hf").mkdir()
        (folder / "token").write_text("t0k3n")
        self.hub = FakeHub(folder / "hf")
        self.node = FakeNode("node-1", LABELS)

    def start(self, *wanted: tuple[str, str], keep: int = 1) -> subprocess.Popen[str]:
        plan = {
            "wanted": [{"repo": repo, "revision": revision} for repo, revision in wanted],
            "keep_previous": keep,
            "interval_s": 60,
            "root": str(self.root),
            "label_prefix": PREFIX,
            "label_value": "ready",
            "api": self.node.url,
            "account": str(self.folder),
        }
        file = self.folder / "plan.json"
        file.write_text(json.dumps(plan))
        path = f"{self.folder / 'hf'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(file), "--once"],
            env={**os.environ, "PATH": path, "NODE_NAME": "node-1"},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *wanted: tuple[str, str], keep: int = 1) -> tuple[int, str]:
        with self.start(*wanted, keep=keep) as process:
            _, said = process.communicate(timeout=300)
        return process.returncode, said

    def ready(self) -> set[str]:
        labels = self.node.labels
        return {name.removeprefix(PREFIX) for name in labels if name.startswith(PREFIX)}

    def folders(self) -> set[str]:
        return {path.name for path in self.root.iterdir() if path.is_dir()}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    stage.hub.publish(REPO, "r1", FILES)
    yield stage
    stage.node.close()


def test_a_revision_is_whole_and_then_labelled(stage: Stage) -> None:
    """The label is what engines wait for; other labels of the node are not ours."""
    code, said = stage.run((REPO, "r1"))
    assert (code, stage.ready()) == (0, {"r1"}), said
    assert stage.node.labels["k3fleet.io/rack"] == "use1-r01"
    assert stage.node.tokens == {"Bearer t0k3n"}
    for name, content in FILES.items():
        assert (stage.root / "r1" / name).read_bytes() == content
    manifest = json.loads((stage.root / "r1/.k3fleet-manifest.json").read_text())
    assert {name: noted["sha256"] for name, noted in manifest["files"].items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()
    }


def test_killed_in_the_middle_it_goes_on(stage: Stage) -> None:
    """Until everything is there, nothing says so; what is there is not fetched twice."""
    stage.hub.stop_after_first_file(True)
    process = stage.start((REPO, "r1"))
    wait_until(lambda: len(stage.hub.downloaded) == 1, "the first file is not downloaded")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert stage.ready() == set()
    assert stage.folders() == {"r1.partial"}
    assert list(stage.root.rglob(".k3fleet-ready")) == []

    stage.hub.stop_after_first_file(False)
    code, said = stage.run((REPO, "r1"))
    assert (code, stage.ready(), stage.folders()) == (0, {"r1"}, {"r1"}), said
    assert sorted(stage.hub.downloaded) == sorted(f"r1/{name}" for name in FILES)


def test_it_ends_when_it_is_told_to(stage: Stage) -> None:
    """The first process of a container ignores SIGTERM unless it asks for it."""
    stage.hub.stop_after_first_file(True)
    process = stage.start((REPO, "r1"))
    wait_until(lambda: len(stage.hub.downloaded) == 1, "the first file is not downloaded")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["a.safetensors", "config.json"])
def test_a_file_that_arrives_wrong_is_fetched_again(stage: Stage, name: str) -> None:
    """The hub announces SHA-256 for large files and git's digest for small ones."""
    stage.hub.corrupt({name: 1})
    code, said = stage.run((REPO, "r1"))
    assert (code, stage.ready()) == (0, {"r1"}), said
    assert stage.hub.downloaded.count(f"r1/{name}") == 2
    assert (stage.root / "r1" / name).read_bytes() == FILES[name]


def test_a_file_that_stays_wrong_is_named(stage: Stage) -> None:
    """An engine that loads wrong weights answers nonsense with status 200."""
    stage.hub.corrupt({"a.safetensors": 99})
    code, said = stage.run((REPO, "r1"))
    assert code == 1
    assert "a.safetensors: wrong after 3 downloads. Check the disk" in said
    assert stage.ready() == set()


@pytest.mark.parametrize("damage", ["lost", "cut short", "overwritten"])
def test_a_damaged_file_is_found_and_fetched_again(stage: Stage, damage: str) -> None:
    """While it is repaired the node has no label, so no engine starts there."""
    stage.run((REPO, "r1"))
    victim = stage.root / "r1/a.safetensors"
    match damage:
        case "lost":
            victim.unlink()
        case "cut short":
            victim.write_bytes(b"a")
        case _:
            victim.write_bytes(b"x" * 5000)
    stage.node.patches.clear()
    code, said = stage.run((REPO, "r1"))
    assert code == 0, said
    assert victim.read_bytes() == FILES["a.safetensors"]
    assert stage.node.patches == [{PREFIX + "r1": None}, {PREFIX + "r1": "ready"}]
    assert stage.hub.downloaded[len(FILES) :] == ["r1/a.safetensors"]


def test_a_whole_node_is_left_alone(stage: Stage) -> None:
    """The look at it comes every minute, beside engines that serve."""
    stage.run((REPO, "r1"))
    stage.node.patches.clear()
    stage.run((REPO, "r1"))
    assert stage.node.patches == []
    assert len(stage.hub.downloaded) == len(FILES)


def test_only_the_last_revision_that_was_wanted_is_kept(stage: Stage) -> None:
    """The way back needs it; each repository counts for itself, and strangers stay."""
    for revision in ("r2", "r3"):
        stage.hub.publish(REPO, revision, FILES)
    stage.hub.publish(DRAFT, "d1", FILES)
    (stage.root / "somebody-elses").mkdir()
    stage.run((REPO, "r1"), (DRAFT, "d1"))
    stage.run((REPO, "r2"))
    assert stage.ready() == {"r1", "r2", "d1"}
    stage.run((REPO, "r3"))
    assert stage.ready() == {"r2", "r3", "d1"}
    assert stage.folders() == {"r2", "r3", "d1", "somebody-elses"}
    stage.run((REPO, "r3"), keep=0)
    assert stage.folders() == {"r3", "somebody-elses"}


def test_an_abandoned_download_makes_room(stage: Stage) -> None:
    """1.5 TB that nobody wants any more may be what the next revision lacks."""
    stage.hub.stop_after_first_file(True)
    process = stage.start((REPO, "r1"))
    wait_until(lambda: len(stage.hub.downloaded) == 1, "the first file is not downloaded")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    stage.hub.stop_after_first_file(False)
    stage.hub.publish(REPO, "r2", FILES)
    stage.run((REPO, "r2"))
    assert stage.folders() == {"r2"}


def test_one_failing_revision_does_not_hold_up_the_others(stage: Stage) -> None:
    """A misspelt draft must not keep the weights away."""
    code, said = stage.run((DRAFT, "missing"), (REPO, "r1"))
    assert code == 1
    assert f"{DRAFT} missing: download failed" in said
    assert stage.ready() == {"r1"}


# What is rendered.

IMAGE = "registry.example/hf@sha256:" + "0" * 64
STAGED = {"weights_stage": {"image": IMAGE}}
SMALL = {"use1-r01": 4}


def rendered(fleet: Fleet, layer: Layer, options: Options | None = None) -> list[KubeObject]:
    return render_region(fleet, "us-east", layer, options)


def stage_plan(objects: list[KubeObject]) -> dict[str, Any]:
    config = next(item for item in objects if "plan.json" in item.get("data", {}))
    plan: dict[str, Any] = json.loads(config["data"]["plan.json"])
    for name in {*config["data"]} - {"plan.json"}:
        assert config["data"][name] == (SCRIPT.parent / name).read_text()
    return plan


def engine_selectors(objects: list[KubeObject]) -> list[dict[str, str]]:
    templates = [
        item["spec"]["leaderWorkerTemplate"]
        for item in objects
        if item["kind"] == "LeaderWorkerSet"
    ]
    return [
        template[part]["spec"]["nodeSelector"]
        for template in templates
        for part in ("leaderTemplate", "workerTemplate")
    ]


def test_engines_wait_for_the_weights_that_are_staged(make_fleet: MakeFleet) -> None:
    """The label that the script sets is the label that the pods ask for."""
    fleet = make_fleet(SMALL, **STAGED)
    plan = stage_plan(rendered(fleet, "platform"))
    labels = {
        plan["label_prefix"] + item["revision"]: plan["label_value"] for item in plan["wanted"]
    }
    assert labels
    for selector in engine_selectors(rendered(fleet, "serving")):
        assert labels.items() <= selector.items()


def test_a_candidate_is_staged_before_it_runs(make_fleet: MakeFleet) -> None:
    """A rollout starts when its weights are on every node."""
    fleet = make_fleet(SMALL, **STAGED)
    weights = fleet.release.weights.model_copy(update={"revision": "next"})
    candidate = fleet.release.model_copy(update={"weights": weights})
    plan = stage_plan(rendered(fleet, "platform", Options(releases={"candidate": candidate})))
    assert {"repo": fleet.model.repo, "revision": "next"} in plan["wanted"]


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        pytest.param({}, Options(), id="not asked for"),
        pytest.param(STAGED, Options(weights_claim="weights"), id="in a claim"),
        pytest.param(STAGED, Options(bare=True), id="bare"),
    ],
)
def test_without_a_stage_nothing_waits_for_one(
    make_fleet: MakeFleet, changes: dict[str, Any], options: Options
) -> None:
    """A label that nobody sets keeps every engine pending for ever."""
    fleet = make_fleet(SMALL, **changes)
    kinds = {item["kind"] for item in rendered(fleet, "platform", options)}
    assert "DaemonSet" not in kinds
    assert "ClusterRole" not in kinds
    for selector in engine_selectors(rendered(fleet, "serving", options)):
        assert not any(name.startswith(PREFIX) for name in selector)


ROLE = "arn:aws:iam::123456789012:role/weights-read"


@pytest.mark.parametrize(
    ("store", "sts"),
    [
        ({}, "https://sts.eu-west-1.amazonaws.com"),
        ({"endpoint_url": "https://ceph.example"}, "https://ceph.example"),
    ],
)
def test_a_role_of_nodes_is_taken_by_a_token_of_their_account(
    make_fleet: MakeFleet, store: dict[str, str], sts: str
) -> None:
    """No key in the cluster; of EKS nothing is needed but that IAM trusts the cluster's issuer."""
    weights = {
        "source": {"bucket": "k3-source"},
        "regions": {"us-east": {"bucket": "k3-us", "region": "eu-west-1", **store}},
        "nodes": {"role": ROLE},
    }
    objects = rendered(make_fleet(SMALL, **STAGED, weights=weights), "platform")
    assert stage_plan(objects)["bucket"]["sts"] == sts
    pod = next(item for item in objects if item["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert env["AWS_ROLE_ARN"] == ROLE
    folder, _, file = str(env["AWS_WEB_IDENTITY_TOKEN_FILE"]).rpartition("/")
    [mount] = [item for item in container["volumeMounts"] if item["mountPath"] == folder]
    [volume] = [item for item in pod["volumes"] if item["name"] == mount["name"]]
    [source] = volume["projected"]["sources"]
    token = source["serviceAccountToken"]
    assert (token["audience"], token["path"], mount["readOnly"]) == (
        "sts.amazonaws.com",
        file,
        True,
    )


def test_a_new_plan_is_a_new_config_map(make_fleet: MakeFleet) -> None:
    """A pod reads its plan once; only a new name in its template restarts it."""

    def mounted(fleet: Fleet) -> str:
        stage = next(item for item in rendered(fleet, "platform") if item["kind"] == "DaemonSet")
        volumes = stage["spec"]["template"]["spec"]["volumes"]
        return next(str(item["configMap"]["name"]) for item in volumes if "configMap" in item)

    again = {"weights_stage": {"image": IMAGE, "keep_previous": 2}}
    assert mounted(make_fleet(SMALL, **STAGED)) != mounted(make_fleet(SMALL, **again))


def test_a_revision_that_is_no_label_is_refused(make_fleet: MakeFleet) -> None:
    """The API server would refuse the pods one by one, in the middle of a rollout."""
    fleet = make_fleet(SMALL, **STAGED)
    weights = fleet.release.weights.model_copy(update={"revision": "r" * 64})
    release = fleet.release.model_copy(update={"weights": weights})
    options = Options(
        releases={"long": release}, assignment={"use1-r01-0": "long", "use1-r01-1": "long"}
    )
    with pytest.raises(ConfigError, match="cannot be part of a node label"):
        rendered(fleet, "serving", options)
