"""What is wrong with a region's bucket is found and named, deep and shallow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from weights_site import BUCKETS, SMALL_LIMITS, SOURCE, Site, model_files, shard_name

from infra.weights.status import revision_status
from infra.weights.verify import Verified, Verifier
from infra.weights.work import Pace, Work

MakeSite = Callable[..., Site]
EAST = BUCKETS["us-east"]
MANIFEST, NOTES = "k3fleet-manifest.json", "k3fleet-notes.json"
FILES = model_files(4, shard_bytes=9000)
# One size, as the real ones: only their content tells them apart.
ONE, TWO, THREE = (shard_name(number, 4) for number in (1, 2, 3))
FILES |= {name: FILES[name][:8900] for name in (ONE, TWO, THREE, shard_name(4, 4))}


def verified(site: Site, *, deep: bool) -> Verified:
    places = site.places()
    store = places.region("us-east")
    work = Work(SMALL_LIMITS, Pace(None, places.time.clock))
    verifier = Verifier(
        store=store,
        weights=site.weights,
        pinned=places.pinned(site.weights),
        keeper=None if deep else places.keeper("us-east", store, site.weights.revision),
        work=work,
    )
    with work.running():
        return verifier.run(deep=deep, like=places.source_of(site.weights).manifest())


def swap(site: Site) -> None:
    site.put(EAST, ONE, FILES[TWO])
    site.put(EAST, TWO, FILES[ONE])


def edit_manifest(site: Site, **changes: object) -> None:
    content = json.loads(site.get(EAST, MANIFEST))
    site.put(EAST, MANIFEST, json.dumps(content | changes).encode())


DAMAGES = [
    pytest.param(lambda site: site.put(EAST, ONE, b"x" * 8900), {(ONE, "corrupted")}, id="rot"),
    pytest.param(
        lambda site: site.put(EAST, ONE, FILES[ONE][:5000]), {(ONE, "truncated")}, id="cut"
    ),
    pytest.param(lambda site: site.put(EAST, ONE, FILES[ONE] * 2), {(ONE, "too-long")}, id="long"),
    pytest.param(swap, {(ONE, "swapped"), (TWO, "swapped")}, id="swapped"),
    pytest.param(
        lambda site: site.client.delete_object(Bucket=EAST, Key=site.key(THREE)),
        {(THREE, "missing")},
        id="missing",
    ),
    pytest.param(lambda site: site.put(EAST, "x.bin", b"x"), {("x.bin", "extra")}, id="extra"),
    pytest.param(
        partial(edit_manifest, repo="moonshotai/Kimi-K2"), {(MANIFEST, "manifest")}, id="model"
    ),
    pytest.param(
        partial(edit_manifest, content_sha256="0" * 64), {(MANIFEST, "manifest")}, id="edited"
    ),
    pytest.param(
        lambda site: site.client.delete_object(Bucket=EAST, Key=site.key(MANIFEST)),
        {(MANIFEST, "manifest")},
        id="no manifest",
    ),
]


@pytest.fixture(scope="module")
def whole_sites() -> dict[str, Site]:
    """Regions that were filled once, by kind of store."""
    return {}


@pytest.fixture
def whole(
    kind: str,
    whole_sites: dict[str, Site],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """Give a region that is whole, and make it so again afterwards."""
    if kind not in whole_sites:
        folder = tmp_path_factory.mktemp("whole")
        made = Site(folder=folder, kind=kind, url=request.getfixturevalue(f"{kind}_url"))
        made.make_buckets()
        made.publish(FILES)
        made.sync()
        assert verified(made, deep=True).findings == ()
        whole_sites[kind] = made
    site = whole_sites[kind]
    manifest = site.get(EAST, MANIFEST)
    yield site
    for name, content in {**FILES, MANIFEST: manifest}.items():
        site.put(EAST, name, content)
    site.client.delete_object(Bucket=EAST, Key=site.key("x.bin"))


@pytest.mark.parametrize("kind", ["moto", "ministack"])
@pytest.mark.parametrize(("damage", "found"), DAMAGES)
def test_every_damage_is_found_by_reading(
    whole: Site, damage: Callable[[Site], None], found: set[tuple[str, str]]
) -> None:
    """Exactly what was damaged, whatever the store says of it."""
    damage(whole)
    result = verified(whole, deep=True)
    assert {(one.name, one.kind) for one in result.findings} == found


def have_checksums_kept(site: Site) -> None:
    """Have the store keep a checksum of what was put there by hand."""
    there = site.keys(EAST)
    for key in (site.key(name) for name in FILES):
        if key in there:
            site.client.copy_object(
                Bucket=EAST,
                Key=key,
                CopySource={"Bucket": EAST, "Key": key},
                ChecksumAlgorithm="CRC64NVME",
                MetadataDirective="REPLACE",
            )


@pytest.mark.parametrize("kind", ["moto"])
@pytest.mark.parametrize(("damage", "found"), DAMAGES)
def test_every_damage_is_found_by_the_checksums_of_the_store(
    whole: Site, damage: Callable[[Site], None], found: set[tuple[str, str]]
) -> None:
    """The CRC-64 of the whole object, which moto computes."""
    damage(whole)
    have_checksums_kept(whole)
    result = verified(whole, deep=False)
    assert {(one.name, one.kind) for one in result.findings} == found


def test_what_is_verified_by_checksums_is_not_read(make_site: MakeSite) -> None:
    """1.5 TB in each region, from wherever the operator sits."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    site.proxy.forget()
    verified(site, deep=False)
    shards = {site.key(name) for name in FILES}
    assert not [one for one in site.proxy.asked if one.what == "read" and one.key in shards]


def test_shallow_says_of_which_files_only_the_size_was_compared(make_site: MakeSite) -> None:
    """A changed object without a checksum of its store: it may be right, and nobody knows."""
    site = make_site("ministack")
    site.publish(FILES)
    site.sync()
    assert verified(site, deep=False).sizes_only == ()
    site.put(EAST, ONE, b"x" * 8900)
    result = verified(site, deep=False)
    assert (result.findings, result.sizes_only) == ((), (ONE,))
    assert result.deep is False


def test_two_consistent_manifests_are_not_the_same(make_site: MakeSite) -> None:
    """A region that was filled from another source is told by the source's manifest."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    site.put(SOURCE, ONE, b"n" * 8900)
    for name in (MANIFEST, NOTES):
        site.client.delete_object(Bucket=SOURCE, Key=site.key(name))
    site.filling().know(lambda _works: None)
    found = verified(site, deep=True).findings
    assert [(one.kind, "is not the source's" in one.what) for one in found] == [("manifest", True)]


def test_status_tells_absent_partial_and_complete_apart(make_site: MakeSite) -> None:
    """From names and sizes; bytes of open uploads are storage that is paid for too."""
    site = make_site()
    site.publish(FILES)
    places = site.places()

    def state() -> tuple[str, int, int, int]:
        store = places.region("us-east")
        found = revision_status("us-east", store, site.weights, None, ("demo",))
        return found.state, found.files, found.open_uploads, found.open_bytes

    assert state() == ("absent", 0, 0, 0)
    site.put(EAST, ONE, FILES[ONE])
    where = {"Bucket": EAST, "Key": site.key(TWO)}
    upload = site.client.create_multipart_upload(**where)["UploadId"]
    site.client.upload_part(**where, UploadId=upload, PartNumber=1, Body=b"x" * 5000)
    assert state() == ("partial", 1, 1, 5000)
    site.sync()
    assert state() == ("complete", len(FILES), 0, 0)
    site.client.delete_object(Bucket=EAST, Key=site.key(THREE))
    assert state() == ("damaged", len(FILES) - 1, 0, 0)
