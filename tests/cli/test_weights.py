"""`k3fleet weights` as an operator meets it: results, exit codes, and nothing done unasked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import fake_cluster
from provision_place import Place
from s3_servers import CREDENTIALS
from weights_site import BUCKETS, SOURCE, Site, model_files, shard_name

from cli.main import main

EAST = BUCKETS["us-east"]
FILES = model_files(2)
FIRST = shard_name(1, 2)
OLD = "0" * 40
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def site(moto_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    made = Site(folder=tmp_path, kind="moto", url=moto_url)
    made.make_buckets()
    made.publish(FILES)
    return made


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(command: str, *words: str) -> tuple[int, str, str]:
        work = ("--work-dir", str(site.work_dir))
        code = main(["weights", command, str(site.fleet_file), *work, *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def data(answer: tuple[int, str, str]) -> Any:
    code, out, said = answer
    assert code == 0, said
    return json.loads(out)


def test_from_an_empty_region_to_a_verified_one(site: Site, run: Run) -> None:
    """The way of a launch: look, fill, look again; the digest is the one to pin."""
    plan = data(run("plan", "-o", "json"))
    assert plan["source"][0]["manifest"] is None
    assert site.keys(EAST) == []
    synced = data(run("sync", "-o", "json"))
    digest = synced["weights"][0]["manifest"]
    manifest = site.get(EAST, "k3fleet-manifest.json")
    assert digest == hashlib.sha256(manifest).hexdigest()
    [left] = data(run("plan", "-o", "json"))["regions"]["us-east"]
    assert (left["send"], left["check"], left["is_published"]) == ([], [], True)
    states = {one["place"]: one["state"] for one in data(run("status", "-o", "json"))}
    assert states == {"source": "complete", "us-east": "complete"}
    [verified] = data(run("verify", "--deep", "-o", "json"))["us-east"]
    assert (verified["deep"], verified["findings"], verified["digest"]) == (True, [], digest)


def test_a_dry_run_writes_nothing(site: Site, run: Run) -> None:
    """Neither into a bucket nor onto the disk."""
    before = site.keys(SOURCE)
    code, out, said = run("sync", "--dry-run")
    assert code == 0, said
    assert "no manifest" in out
    assert (site.keys(SOURCE), site.keys(EAST)) == (before, [])
    assert not site.work_dir.exists()


def test_findings_are_exit_code_1(site: Site, run: Run) -> None:
    """Judged, and not right: a script must not go on."""
    data(run("sync", "-o", "json"))
    site.put(EAST, FIRST, b"x" * len(FILES[FIRST]))
    code, out, _ = run("verify", "--deep")
    assert code == 1
    assert f"'{FIRST}': corrupted" in out
    assert "--region us-east` copies these again" in out


def test_gc_deletes_only_with_a_yes(site: Site, run: Run) -> None:
    """Nobody can be asked in a pipeline, so it has to be said."""
    data(run("sync", "-o", "json"))
    old = f"{site.prefix}/{OLD}/k3fleet-manifest.json"
    site.client.put_object(Bucket=EAST, Key=old, Body=b"{}")
    assert run("gc")[0] == 3  # no stack says what runs
    folder = site.work_dir / "stacks/serving-us-east"
    folder.mkdir(parents=True)
    told = {"fleet": str(site.fleet_file), "region": "us-east", "kubeconfig": "/kube"}
    config = {f"k3fleet-serving:{key}": value for key, value in told.items()}
    (folder / "Pulumi.serving-us-east.yaml").write_text(json.dumps({"config": config}))
    [listed] = data(run("gc", "--dry-run", "-o", "json"))
    needs = {one["revision"]: bool(one["needed_by"]) for one in listed["revisions"]}
    assert needs == {site.weights.revision: True, OLD: False}
    code, _, said = run("gc")
    assert (code, "Give --yes" in said) == (3, True)
    assert old in site.keys(EAST)
    assert run("gc", "--yes")[0] == 0
    assert old not in site.keys(EAST)
    assert site.digests(EAST).keys() == FILES.keys()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--region", "us-wset"), "--region us-wset: has no bucket"),
        (("--part-size", "1MB"), "is not between"),
        (("--rate", "fast"), "is not a size"),
        (("--release", "no-such"), "unknown release 'no-such'"),
        (("--hub-listing", "/nonexistent"), "cannot be read"),
    ],
)
def test_wrong_words_are_exit_code_3(
    site: Site, run: Run, words: tuple[str, ...], why: str
) -> None:
    """Before anything is asked of a store."""
    code, _, said = run("sync", *words)
    assert (code, why in said) == (3, True), said
    assert site.keys(EAST) == []


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        pytest.param({}, None, id="right"),
        pytest.param({"oid": "0" * 64}, "has another SHA-256 than at the hub", id="digest"),
        pytest.param({"size": 1}, "1 at the hub", id="size"),
    ],
)
def test_a_source_is_compared_with_the_hubs_listing(
    site: Site, run: Run, change: dict[str, object], wrong: str | None
) -> None:
    """A shard that was cut on its way from the hub would else be copied into every region."""
    content = FILES[FIRST]
    large = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), **change}
    listing = site.folder / "listing.json"
    listing.write_text(json.dumps([{"type": "file", "path": FIRST, "lfs": large}]))
    code, _, said = run("sync", "--hub-listing", str(listing))
    assert code == (15 if wrong else 0), said
    assert (wrong or "") in said


def test_without_the_section_it_says_what_to_write(site: Site, run: Run) -> None:
    """A fleet whose weights somebody else brings has none."""
    lines = site.fleet_file.read_text().split("weights:")[0]
    site.fleet_file.write_text(lines)
    code, _, said = run("status")
    assert code == 3
    assert "weights: not set" in said


# Nodes.

IMAGE = "registry.example/hf@sha256:" + "0" * 64


def node(name: str, rack: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"k3fleet.io/rack": rack, **labels}}}


@pytest.fixture
def staged(site: Site) -> Site:
    """A fleet whose nodes are filled, and labelled, by the weights stage."""
    site.fleet_file.write_text(site.fleet_file.read_text() + f"weights_stage: {{image: {IMAGE}}}\n")
    return site


def test_status_counts_the_nodes_that_hold_the_weights(
    staged: Site, run: Run, tmp_path: Path
) -> None:
    """A region is ready when its nodes are; those of other racks are somebody else's."""
    whole = {f"weights.k3fleet.io/{staged.weights.revision}": "ready"}
    nodes = [
        node("tray-1", "us-east-r1", **whole),
        node("tray-2", "us-east-r1"),
        node("other", "another-fleets", **whole),
    ]
    with fake_cluster() as cluster:
        listed = {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": nodes}
        cluster.objects["/api/v1/nodes"] = listed
        where = ("--kubeconfig", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
        told = {one["place"]: one["nodes"] for one in data(run("status", "-o", "json", *where))}
        _, out, _ = run("status", *where)
    assert told == {"source": None, "us-east": {"ready": 1, "total": 2, "waiting": ["tray-2"]}}
    assert "1 of 2" in out
    assert f"us-east {staged.weights.revision[:12]}: not on tray-2" in out


@pytest.mark.parametrize("away", ["kubeconfig", "cluster", "stage"])
def test_status_says_why_no_node_was_asked(
    staged: Site, run: Run, tmp_path: Path, away: str
) -> None:
    """Buckets are looked at all the same, from wherever one is."""
    words: tuple[str, ...] = ()
    if away == "cluster":
        with fake_cluster() as cluster:
            words = ("--kubeconfig", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    if away == "stage":
        staged.write_fleet()
    told = run("status", "-o", "json", *words)
    assert {one["nodes"] for one in data(told)} == {None}
    why = {
        "kubeconfig": "no kubeconfig here has a cluster. Give --kubeconfig FILE.",
        "cluster": "us-east",
        "stage": "without weights_stage nobody labels nodes.",
    }
    assert f"us-east: nodes not asked: {why[away]}" in told[2]


# What is deployed, for gc.


@pytest.fixture
def deployed(site: Site, place: Place) -> Place:
    """The fleet is up, in a state that can be read, and its cluster answers."""
    site.write_fleet()  # `place` has written another one
    listed = f"/api/v1/namespaces/{site.fleet().spec.namespace}/configmaps"
    place.cluster.objects[listed] = {"kind": "ConfigMapList", "metadata": {}, "items": []}
    name = "state/.pulumi/stacks/k3fleet-serving/serving-us-east.json"
    file = site.work_dir / "stacks" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return place


def runs(place: Place, *releases: str) -> None:
    """Have the stack's outputs name releases."""
    replicas = {f"r{number}": release for number, release in enumerate(releases)}
    place.pulumi.answer({"output": place.outputs(serial=1, releases=replicas)})


def test_gc_keeps_what_the_stacks_outputs_name(site: Site, run: Run, deployed: Place) -> None:
    """Another working copy may have deployed it."""
    runs(deployed, site.fleet().release_id)
    code, _, said = run("gc", "--dry-run")
    assert code == 0, said
    runs(deployed, "elsewhere-12345678")
    code, _, said = run("gc", "--yes")
    assert code == 3
    assert "runs the release elsewhere-12345678" in said


@pytest.mark.parametrize("away", ["state", "cluster"])
def test_gc_deletes_nothing_where_it_cannot_ask(
    site: Site, run: Run, deployed: Place, away: str
) -> None:
    """Unless somebody types what runs."""
    if away == "state":
        deployed.pulumi.answer({"output": {"code": 1}})
    else:
        runs(deployed, site.fleet().release_id)
        deployed.cluster.objects.clear()
    code, _, said = run("gc", "--yes")
    assert code == 3
    assert "cannot be established" in said
    assert "--assume-deployed RELEASE" in said
    assert run("gc", "--dry-run", "--assume-deployed", "vllm-tp8-dcp8")[0] == 0
