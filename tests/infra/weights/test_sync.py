"""Weights on their way into a region: what arrives, what is checked, what stops it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Event

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.parsers import ResponseParserError
from s3_servers import Asked, Fault
from weights_site import BUCKETS, PART_BYTES, SMALL_LIMITS, SOURCE, Site, model_files, shard_name

from fleet.errors import BusyError, ConfigError, FleetError, StoreError, WeightsError
from fleet.weights_spec import StoreSpec
from infra.weights.store import Store, connect
from infra.weights.store_errors import asked as asked_of
from infra.weights.work import Limits

MakeSite = Callable[..., Site]
EAST = BUCKETS["us-east"]
MANIFEST, NOTES = "k3fleet-manifest.json", "k3fleet-notes.json"
SHARDS = 2
FILES = model_files(SHARDS)
FIRST, SECOND = shard_name(1, SHARDS), shard_name(2, SHARDS)
WAYS = [
    pytest.param("moto", False, id="moto, copied by the store"),
    pytest.param("moto", True, id="moto, through us"),
    pytest.param("ministack", False, id="ministack, copied by the store"),
    pytest.param("ministack", True, id="ministack, through us"),
]


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@pytest.mark.parametrize(("kind", "through_us"), WAYS)
def test_a_region_gets_the_files_of_the_source(
    make_site: MakeSite, kind: str, through_us: bool
) -> None:
    """Byte for byte, with a manifest of their SHA-256 that was written after them."""
    site = make_site(kind, through_us=through_us)
    site.publish(FILES)
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    manifest = json.loads(site.get(EAST, MANIFEST))
    assert {item["name"]: item["sha256"] for item in manifest["files"]} == digests(FILES)
    assert site.get(EAST, MANIFEST) == site.get(SOURCE, MANIFEST)
    puts = [
        one.key for one in site.proxy.asked if one.method in ("PUT", "POST") and one.bucket == EAST
    ]
    assert puts.index(site.key(MANIFEST)) == len(puts) - 1
    copied = site.proxy.count("copy part"), site.proxy.count("part")
    assert copied == ((0, 3 * SHARDS) if through_us else (3 * SHARDS, 0))


def test_a_second_run_moves_nothing(make_site: MakeSite) -> None:
    """It asks what is there, and that is all."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    site.proxy.forget()
    site.sync()
    assert [one.key for one in site.proxy.asked if one.method == "PUT"] == [site.lock_key]
    read = {one.key for one in site.proxy.asked if one.what == "read"}
    assert read == {site.key(MANIFEST), site.key(NOTES), site.lock_key}


def test_without_any_notes_it_is_read_and_not_sent(make_site: MakeSite) -> None:
    """Notes save work; what they said is found out again, from the bucket itself."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    site.client.delete_object(Bucket=EAST, Key=site.key(NOTES))
    for file in site.work_dir.rglob("*.json"):
        file.unlink()
    site.proxy.forget()
    site.sync()
    assert site.proxy.count("begin") == 0
    reads = [one.key for one in site.proxy.asked if one.what == "read" and one.bucket == EAST]
    assert sorted(set(reads) & {site.key(name) for name in FILES}) == sorted(map(site.key, FILES))


@pytest.mark.parametrize(("kind", "through_us"), WAYS)
def test_a_damaged_file_is_replaced(make_site: MakeSite, kind: str, through_us: bool) -> None:
    """Same size, other bytes: the tag has changed, so it is read, and then sent again."""
    site = make_site(kind, through_us=through_us)
    site.publish(FILES)
    site.sync()
    site.put(EAST, FIRST, b"x" * len(FILES[FIRST]))
    site.proxy.forget()
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    assert site.proxy.count("begin") == 1


@pytest.mark.parametrize("through_us", [False, True])
def test_a_source_that_changes_under_the_copy_is_detected(
    make_site: MakeSite, through_us: bool
) -> None:
    """Moto obeys no condition of a part copy, as other stores may not: the tag is asked again."""
    site = make_site(through_us=through_us)
    site.publish(FILES)

    def change(asked: Asked) -> None:
        if asked.what in ("copy part", "part") and asked.key == site.key(SECOND):
            site.put(SOURCE, SECOND, b"y" * len(FILES[SECOND]))

    site.proxy.rule = change
    with pytest.raises(WeightsError, match="was changed while it was copied"):
        site.sync()
    assert MANIFEST not in site.keys(EAST)


def test_a_source_that_changed_since_its_manifest_is_named(make_site: MakeSite) -> None:
    """A revision means one content; nothing of the changed one goes anywhere."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    site.put(SOURCE, FIRST, b"y" * len(FILES[FIRST]))
    with pytest.raises(WeightsError, match=f"{FIRST} has another content than its manifest says"):
        site.sync()
    assert site.digests(EAST) == digests(FILES)


def test_a_source_that_was_put_there_again_is_the_same(make_site: MakeSite) -> None:
    """Another tag alone is no other content: only that file is read again."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    upload = site.client.create_multipart_upload(Bucket=SOURCE, Key=site.key(FIRST))["UploadId"]
    where = {"Bucket": SOURCE, "Key": site.key(FIRST), "UploadId": upload}
    part = site.client.upload_part(**where, PartNumber=1, Body=FILES[FIRST])
    site.client.complete_multipart_upload(
        **where, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    )
    site.proxy.forget()
    site.sync()
    read = [one.key for one in site.proxy.asked if one.what == "read" and one.bucket == SOURCE]
    assert [key for key in read if key.endswith(".safetensors")] == [site.key(FIRST)]


def test_another_models_manifest_in_the_region_stops_it(make_site: MakeSite) -> None:
    """Nothing is written over it: it may be what somebody serves."""
    site = make_site()
    site.publish(FILES)
    site.sync()
    other = site.get(EAST, MANIFEST).replace(b"moonshotai/Kimi-K3", b"moonshotai/Kimi-K2")
    site.put(EAST, MANIFEST, other)
    before = site.keys(EAST)
    with pytest.raises(WeightsError, match="is of another model: 'moonshotai/Kimi-K2'"):
        site.sync()
    assert site.keys(EAST) == before
    assert site.get(EAST, MANIFEST) == other


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../evil.bin", "leads out of its folder"),
        ("a/../../evil.bin", "leads out of its folder"),
        ("a\\b.bin", "backslash"),
        ("modèle.bin", "outside ASCII"),
        ("CONFIG.json", "differ only in capitals"),
        ("config.json/x", "is a file, and the folder of"),
        ("k3fleet-x", "keeps for itself"),
    ],
)
def test_tricks_in_the_names_of_the_source_are_refused(
    make_site: MakeSite, name: str, why: str
) -> None:
    """Before anything is read or written; ministack keeps such keys as they are."""
    site = make_site("ministack")
    site.publish(FILES)
    site.client.put_object(Bucket=SOURCE, Key=site.key(name), Body=b"x")
    if site.key(name) not in site.keys(SOURCE):
        pytest.skip("this store does not keep the key as it is")
    with pytest.raises(WeightsError, match=why):
        site.sync()
    assert site.keys(EAST) == []


@pytest.mark.parametrize(
    ("missing", "why"),
    [(SECOND, f"{SECOND} is missing"), ("config.json", "config.json is missing")],
)
def test_an_incomplete_source_is_refused(make_site: MakeSite, missing: str, why: str) -> None:
    """Shards say how many there are."""
    site = make_site()
    site.publish({name: content for name, content in FILES.items() if name != missing})
    with pytest.raises(WeightsError, match=why):
        site.sync()


def test_a_pinned_digest_is_kept_to(make_site: MakeSite) -> None:
    """Whoever can write both buckets cannot write the fleet file."""
    site = make_site()
    site.publish(FILES)
    site.write_fleet(manifests={site.weights.revision: "0" * 64})
    with pytest.raises(WeightsError, match="its manifest would have the digest"):
        site.sync()
    assert site.keys(EAST) == [site.lock_key] or site.keys(EAST) == []


def test_two_regions_are_filled_at_once(make_site: MakeSite) -> None:
    """From one reading of the source."""
    site = make_site(regions=("us-east", "eu-west"))
    site.publish(FILES)
    site.sync()
    for bucket in BUCKETS.values():
        assert site.digests(bucket) == digests(FILES)
    reads = [one.key for one in site.proxy.asked if one.what == "read" and one.bucket == SOURCE]
    assert reads.count(site.key(FIRST)) == 1


def test_a_region_that_fails_leaves_the_other_going(make_site: MakeSite) -> None:
    """A launch waits for the slowest region anyway; the others need not wait for its repair."""
    site = make_site(regions=("us-east", "eu-west"))
    site.publish(FILES)

    def deny(asked: Asked) -> Fault | None:
        broken = asked.bucket == BUCKETS["eu-west"] and asked.what == "begin"
        return Fault(status=403, code="AccessDenied") if broken else None

    site.proxy.rule = deny
    with pytest.raises(StoreError, match=r"k3-eu-west.*not allowed"):
        site.sync()
    assert site.digests(EAST) == digests(FILES)
    assert site.key(MANIFEST) in site.keys(EAST)
    assert site.key(MANIFEST) not in site.keys(BUCKETS["eu-west"])


def test_a_source_that_may_only_be_read_is_enough(make_site: MakeSite) -> None:
    """Its notes and manifest then stay on this machine, and save the second reading there."""
    site = make_site()
    site.publish(FILES)

    def deny(asked: Asked) -> Fault | None:
        writes = asked.bucket == SOURCE and asked.method == "PUT"
        return Fault(status=403, code="AccessDenied") if writes else None

    site.proxy.rule = deny
    site.sync()
    site.proxy.forget()
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    read = [one.key for one in site.proxy.asked if one.what == "read" and one.bucket == SOURCE]
    assert not set(read) & {site.key(name) for name in FILES}
    assert any("may not be written to" in line for line in site.said)


def test_a_store_that_has_checksums_can_be_believed(make_site: MakeSite) -> None:
    """Where bytes that come back cost money: by CRC-64 of the whole, which moto computes."""
    site = make_site()
    site.publish(FILES)
    site.sync(check_by="checksum")
    reads = {one.key for one in site.proxy.asked if one.what == "read" and one.bucket == EAST}
    assert not reads & {site.key(name) for name in FILES}
    assert site.digests(EAST) == digests(FILES)


def test_a_lock_keeps_a_second_run_away(make_site: MakeSite) -> None:
    """Two that fill one region would end each other's uploads."""
    site = make_site()
    site.publish(FILES)
    told = {"holder": "ann@elsewhere/7", "process": "another-boot ns 7 1.0"}
    site.client.put_object(Bucket=EAST, Key=site.lock_key, Body=json.dumps(told).encode())
    with pytest.raises(BusyError, match="ann@elsewhere/7 works on it"):
        site.sync()
    assert site.keys(EAST) == [site.lock_key]


def test_a_run_that_lost_its_lock_writes_nothing_more(make_site: MakeSite) -> None:
    """Whoever took it over works on the same files."""
    site = make_site()
    site.publish(FILES)
    places = site.places()
    lock = places.lock(places.region("us-east"))
    with lock.held():
        site.client.put_object(Bucket=EAST, Key=site.lock_key, Body=b'{"process": "other"}')
        with pytest.raises(StoreError):
            lock._renew()
        lock._lost = "taken"
        with pytest.raises(BusyError, match="was taken over"):
            lock.require()
    assert site.client.get_object(Bucket=EAST, Key=site.lock_key)["Body"].read() == (
        b'{"process": "other"}'
    )


def test_a_lock_that_nobody_renews_is_taken(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the store's own clock; its holder's next write then fails."""
    site = make_site()
    site.publish(FILES)
    site.client.put_object(Bucket=EAST, Key=site.lock_key, Body=b'{"holder": "x", "process": "y"}')
    monkeypatch.setattr("infra.weights.lock.LENGTH_S", -10.0)
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    assert site.lock_key not in site.keys(EAST)


def test_a_tokenizer_json_is_made_where_there_is_none(make_site: MakeSite) -> None:
    """Once, at the source; from there it goes everywhere, as a file like the others."""
    site = make_site()
    without = {name: content for name, content in FILES.items() if name != "tokenizer.json"}
    given = {"tiktoken.model": b"vocabulary", "tokenizer_config.json": b"{}"}
    site.publish(without | given)

    def make(files: Mapping[str, bytes]) -> bytes:
        assert files == given
        return b'{"made": 1}'

    replace(site.filling(), make_tokenizer=make).run(lambda _works: None)
    assert site.get(EAST, "tokenizer.json") == site.get(SOURCE, "tokenizer.json") == b'{"made": 1}'
    assert "tokenizer.json" in site.get(EAST, MANIFEST).decode()


def test_a_bucket_elsewhere_is_named(make_site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies across regions by mistake cost money and days."""
    site = make_site()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", site.url)
    site.client.create_bucket(
        Bucket="k3-elsewhere", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    spec = StoreSpec(bucket="k3-elsewhere", region="us-east-1")
    with pytest.raises(ConfigError, match="is in eu-west-1, not in us-east-1"):
        Store(spec, connect(spec, 1), time.monotonic).check_region()


def test_parts_of_another_size_are_not_mixed(make_site: MakeSite) -> None:
    """An operator who chose other parts the second time gets the right file."""
    site = make_site(through_us=True)
    site.publish(FILES)
    fails_after = 5

    def fail(asked: Asked) -> Fault | None:
        late = asked.what == "part" and site.proxy.count("part") > fails_after
        return Fault(status=403, code="AccessDenied") if late else None

    site.proxy.rule = fail
    with pytest.raises(StoreError):
        site.sync()
    site.proxy.rule = lambda _asked: None
    site.sync(limits=Limits(concurrency=2, part_bytes=PART_BYTES // 2, whole_bytes=1024))
    assert site.digests(EAST) == digests(FILES)
    assert site.uploads(EAST) == []


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"bucket": "no-such-bucket"}, ConfigError, "there is no such bucket"),
        ({"profile": "nobody"}, ConfigError, "profile .nobody. could not be found"),
    ],
)
def test_a_wrong_store_is_named(
    make_site: MakeSite, change: dict[str, str], error: type[FleetError], why: str
) -> None:
    """With what to do, and before anything is touched."""
    site = make_site()
    site.publish(FILES)
    fleet = site.fleet_file.read_text()
    if "bucket" in change:
        fleet = fleet.replace(EAST, change["bucket"])
    else:
        fleet = fleet.replace(f"bucket: {EAST}", f"bucket: {EAST}\n      profile: nobody")
    site.fleet_file.write_text(fleet)
    with pytest.raises(error, match=why):
        site.sync()


def test_memory_is_bounded_by_the_limits() -> None:
    """Several regions share the threads of one run."""
    limits = Limits(concurrency=8)
    assert limits.shared_by(3).concurrency * 3 * limits.part_bytes <= 8 * limits.part_bytes
    assert SMALL_LIMITS.shared_by(100).concurrency == 1


def test_a_file_that_is_changed_after_it_was_read_is_no_part_of_a_whole(
    make_site: MakeSite,
) -> None:
    """A store with MD5 only keeps nothing that would tell: the size alone is no proof."""
    site = make_site("ministack")
    site.publish(FILES)
    swapped: list[str] = []

    def swap(asked: Asked) -> None:
        noted = [one for one in site.proxy.asked if one.key == site.key(NOTES)]
        written = sum(one.method == "PUT" and one.bucket == EAST for one in noted)
        if asked.what == "list" and written >= len(FILES) and not swapped:
            swapped.append(FIRST)
            site.put(EAST, FIRST, b"x" * len(FILES[FIRST]))

    site.proxy.rule = swap
    with pytest.raises(WeightsError, match="is no longer what was read"):
        site.sync()
    assert swapped
    assert site.key(MANIFEST) not in site.keys(EAST)


def test_a_store_that_ignores_ranges_is_found_out(make_site: MakeSite) -> None:
    """After a break its first bytes would be taken for the next ones, and noted as the content."""
    site = make_site(through_us=True)
    site.publish(FILES)
    read = Store.read

    class Whole:
        def __init__(self, client: object) -> None:
            self.client = client

        def __getattr__(self, name: str) -> object:
            return getattr(self.client, name)

        def get_object(self, **asked: object) -> object:
            del asked["Range"]
            return self.client.get_object(**asked)  # type: ignore[attr-defined]

    store = site.places().source()
    etag = site.client.head_object(Bucket=SOURCE, Key=site.key(FIRST))["ETag"]
    whole = Store(store.spec, Whole(store.client), time.monotonic)
    assert b"".join(read(whole, site.key(FIRST), etag, 0, 100)) == FILES[FIRST][:100]
    with pytest.raises(StoreError, match="cannot be read in parts"):
        b"".join(read(whole, site.key(FIRST), etag, 100, 200))


def test_a_lock_that_cannot_be_renewed_counts_as_lost(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three minutes somebody else may have it, and this run cannot see that."""
    monkeypatch.setattr("infra.weights.lock.RENEW_S", 0.01)
    monkeypatch.setattr("infra.weights.lock._RISKY_S", 0.0)
    site = make_site()
    places = site.places()
    lock = places.lock(places.region("us-east"))
    lost = Event()

    def refuse(asked: Asked) -> Fault | None:
        return Fault(status=403, code="AccessDenied") if asked.method == "PUT" else None

    with lock.held():
        site.proxy.rule = refuse
        while not lost.wait(0.01):  # the test's own time-out ends it
            if lock._lost:
                lost.set()
        with pytest.raises(BusyError, match="taken over, or may be"):
            lock.require()


def test_a_page_of_a_proxy_is_no_store() -> None:
    """botocore raises what it raises for a bug of its own."""
    with pytest.raises(StoreError, match="Look for a proxy"), asked_of("s3://b"):
        raise ResponseParserError("<html>Log in")


@pytest.mark.parametrize(
    "address",
    [
        "https://ann:s3cr3t@store.example",
        "https://s3cr3t@store.example",
        "https://store.example/?X-Amz-Signature=s3cr3t",
        "https://[s3cr3t",
    ],
)
def test_a_secret_in_an_address_is_not_repeated(make_site: MakeSite, address: str) -> None:
    """What was pasted by mistake would be in the log of the pipeline."""
    site = make_site()
    site.target_ask = address
    site.write_fleet()
    with pytest.raises(ConfigError) as caught:
        site.fleet()
    assert "s3cr3t" not in str(caught.value)


def test_a_password_of_the_environment_is_not_repeated() -> None:
    """AWS_ENDPOINT_URL_S3 is nobody's to check, and botocore puts it into its errors."""
    url = "http://ann:s3cr3t@127.0.0.1:9/b"
    with pytest.raises(StoreError) as caught, asked_of("s3://b"):
        raise ReadTimeoutError(endpoint_url=url)
    assert "s3cr3t" not in str(caught.value)
