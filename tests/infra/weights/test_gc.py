"""What may be deleted from a bucket, and what never is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from weights_site import BUCKETS, Site, model_files

from fleet.errors import ConfigError
from fleet.load import load_release
from fleet.release import release_id
from fleet.rollout.record import Asked, Place, RecordedStep, Started
from fleet.rollout.state import read_state
from fleet.weights.needs import WeightSet, needed_by
from infra.rollout.journal import Journal
from infra.weights.deployed import Deployed
from infra.weights.gc import delete_garbage, find_garbage
from infra.weights.in_use import Use

MakeSite = Callable[..., Site]
EAST = BUCKETS["us-east"]
FILES = model_files(2)
ABORTED = Asked(at_s=2.0, by="ann", command="abort")
OLD, STRANGE = "0" * 40, "somebody-elses"


def filled(make_site: MakeSite, **more: object) -> Site:
    """A region with the revision in use, an old one of ours and a folder of somebody else's."""
    site = make_site(**more)
    site.publish(FILES)
    site.sync()
    for name in ("k3fleet-manifest.json", "k3fleet-notes.json", "a.safetensors"):
        site.client.put_object(Bucket=EAST, Key=f"{site.prefix}/{OLD}/{name}", Body=b"old")
    site.client.put_object(Bucket=EAST, Key=f"{site.prefix}/{STRANGE}/a.bin", Body=b"theirs")
    return site


def collect(site: Site, needed: dict[WeightSet, tuple[str, ...]], now_s: float = 4e9) -> list[str]:
    places = site.places()
    store = places.region("us-east")
    garbage = find_garbage("us-east", store, needed, now_s=now_s, uploads_older_than_s=86_400)
    delete_garbage(store, places.lock(store), garbage, site.said.append)
    return [kept.revision for kept in garbage.unneeded]


def test_what_no_release_needs_goes_and_nothing_else(make_site: MakeSite) -> None:
    """Strangers have folders in buckets too."""
    site = filled(make_site)
    before = set(site.keys(EAST))
    assert collect(site, {site.weights: ("demo",)}) == [OLD]
    gone = before - set(site.keys(EAST))
    assert gone == {key for key in before if f"/{OLD}/" in key}
    assert site.digests(EAST).keys() == FILES.keys()


def test_a_manifest_goes_first_and_the_notes_last(make_site: MakeSite) -> None:
    """Killed in between, it is no whole revision, and still known as ours."""
    site = filled(make_site)
    site.proxy.forget()
    collect(site, {site.weights: ("demo",)})
    deleted = [one.key.rpartition("/")[2] for one in site.proxy.asked if one.method == "DELETE"]
    assert deleted[:3] == ["k3fleet-manifest.json", "a.safetensors", "k3fleet-notes.json"]


def test_only_uploads_that_were_left_are_aborted(make_site: MakeSite) -> None:
    """One that is young may be on its way; one elsewhere is somebody else's."""
    site = filled(make_site, kind="ministack")
    ours, theirs = site.key("x.bin"), f"{site.prefix}/{STRANGE}/x.bin"
    for key in (ours, theirs):
        site.client.create_multipart_upload(Bucket=EAST, Key=key)
    begun_s = site.uploads(EAST)[0]["Initiated"].timestamp()
    collect(site, {site.weights: ("demo",)}, now_s=begun_s + 3600)
    assert {one["Key"] for one in site.uploads(EAST)} == {ours, theirs}
    collect(site, {site.weights: ("demo",)}, now_s=begun_s + 90_000)
    assert {one["Key"] for one in site.uploads(EAST)} == {theirs}


def test_without_versions_nothing_is_deleted(make_site: MakeSite) -> None:
    """A deletion that cannot be taken back is not ours to make."""
    site = filled(make_site)
    status = {"Status": "Suspended"}
    site.client.put_bucket_versioning(Bucket=EAST, VersioningConfiguration=status)
    before = site.keys(EAST)
    try:
        with pytest.raises(ConfigError, match="keeps no versions"):
            collect(site, {site.weights: ("demo",)})
    finally:
        status = {"Status": "Enabled"}
        site.client.put_bucket_versioning(Bucket=EAST, VersioningConfiguration=status)
    assert site.keys(EAST) == before


# Which releases are in use.


def write_stack(site: Site, releases: list[str], assignment: dict[str, str]) -> None:
    folder = site.work_dir / "stacks/serving-us-east"
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "fleet": str(site.fleet_file),
        "region": "us-east",
        "kubeconfig": "/kube",
        "releases": releases,
        "assignment": assignment,
    }
    content = {"config": {f"k3fleet-serving:{key}": value for key, value in config.items()}}
    (folder / "Pulumi.serving-us-east.yaml").write_text(yaml.safe_dump(content))


def in_use(site: Site, *extra: str, keep: int = 2, **more: Any) -> set[str]:
    found = use(site, extra=extra, keep_previous=keep, **more).releases()
    return {release.name for release in found.values()}


def use(site: Site, **more: Any) -> Use:
    return Use(**{"fleet": site.fleet(), "work_dir": site.work_dir, "deployed": {}, **more})


def started(old: str, new: str, sources: dict[str, str]) -> Started:
    place = Place(replica="r", rack="us-east-r1", region="us-east")
    return Started(
        at_s=1.0,
        by="ann",
        old=old,
        new=new,
        steps=(RecordedStep(wave="w", places=(place,)),),
        on_fail="hold",
        reruns=0,
        releases=sources,
    )


def test_the_stacks_and_the_latest_rollouts_are_in_use(make_site: MakeSite) -> None:
    """What runs, what a rollout may go back to, and what somebody names."""
    site = make_site()
    write_stack(site, ["vllm-tp8"], {})
    names = {"1": ("sglang-tp8-dcp8", "sglang-tp8-dcp8-dspark"), "2": ("vllm-tp8", "vllm-pd-2p1d")}
    for number, (old, new) in names.items():
        begun = started(old, new, {old: old, new: new})
        record = Journal(site.work_dir / f"rollouts/000{number}.jsonl")
        record.append(begun)
        assert {old, new} <= in_use(site, keep=0)  # nobody knows yet which of them stays
        record.append(ABORTED)
        assert record.state().status == "aborted"
    assert in_use(site, keep=0) == {"vllm-tp8-dcp8", "vllm-tp8"}
    assert in_use(site, keep=1) == {"vllm-tp8-dcp8", "vllm-tp8", "vllm-pd-2p1d"}
    assert "sglang-tp8-dcp8" in in_use(site, keep=2)
    assert "trtllm-tep8" in in_use(site, "trtllm-tep8")


def test_what_a_region_runs_counts_whoever_deployed_it(make_site: MakeSite) -> None:
    """The stack's outputs name releases by id; the records say where each is read from."""
    site = make_site()
    running = release_id(load_release("vllm-tp8", beside=Path()))
    up = Deployed(is_up=True, releases=frozenset({running, site.fleet().release_id}))
    with pytest.raises(ConfigError, match=f"runs the release {running}.*Nothing was deleted"):
        in_use(site, deployed={"us-east": up})
    assert in_use(site, "vllm-tp8", deployed={"us-east": up}) == {"vllm-tp8-dcp8", "vllm-tp8"}
    begun = {3: read_state([started("x", running, {running: "vllm-tp8"}), ABORTED])}
    recorded = replace(up, rollouts=begun)
    assert in_use(site, keep=0, deployed={"us-east": recorded}) == {"vllm-tp8-dcp8", "vllm-tp8"}


def test_rollouts_that_others_drove_are_in_use(make_site: MakeSite) -> None:
    """What they may go back to runs nowhere at the moment."""
    site = make_site()
    known = {name: name for name in ("vllm-tp8", "vllm-pd-2p1d", "sglang-tp8-dcp8")}
    begun = {
        9: read_state([started("sglang-tp8-dcp8", "vllm-tp8", known), ABORTED]),
        10: read_state([started("vllm-tp8", "vllm-pd-2p1d", known), ABORTED]),
    }
    deployed = {"us-east": Deployed(is_up=True, rollouts=begun)}
    assert in_use(site, keep=1, deployed=deployed) == {"vllm-tp8-dcp8", "vllm-tp8", "vllm-pd-2p1d"}
    assert "sglang-tp8-dcp8" in in_use(site, keep=2, deployed=deployed)


def test_somebody_may_vouch_for_what_runs(make_site: MakeSite) -> None:
    """State and clusters may be out of reach for good; then a name has to be typed."""
    assert in_use(make_site(), vouched=("vllm-tp8",)) == {"vllm-tp8-dcp8", "vllm-tp8"}


def test_a_draft_of_a_release_in_use_is_needed(make_site: MakeSite) -> None:
    """The revision of a draft is a folder of its own."""
    site = make_site()
    write_stack(site, ["vllm-tp8-dcp8-dspark"], {})
    fleet = site.fleet()
    needed = needed_by(fleet.model, use(site, keep_previous=0).releases())
    draft = load_release("vllm-tp8-dcp8-dspark", beside=Path()).speculation
    assert draft is not None
    assert draft.revision in {weights.revision for weights in needed}


@pytest.mark.parametrize(
    ("stack", "why"),
    [
        (None, "which releases run in us-east is not known here"),
        ({"us-east-r1-0": "gone-12345678"}, "assigns the release gone-12345678"),
    ],
)
def test_where_use_cannot_be_told_nothing_is_deleted(
    make_site: MakeSite, stack: dict[str, str] | None, why: str
) -> None:
    """A guess would take the weights of a release that serves."""
    site = make_site()
    if stack is not None:
        write_stack(site, [], stack)
    with pytest.raises(ConfigError, match=f"{why}.*Nothing was deleted"):
        in_use(site)
