"""Killed, throttled, cut off, with expired credentials: what is done is not done again."""

from __future__ import annotations

import hashlib
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

import pytest
from s3_servers import Asked, Fault
from weights_forks import Forks, Sync
from weights_site import BUCKETS, PART_BYTES, SMALL_LIMITS, SOURCE, Site, model_files, shard_name

from fleet.errors import StoreError, WeightsError
from infra.weights.file_copy import ATTEMPTS
from infra.weights.store_errors import BusyStoreError, CredentialsError
from infra.weights.work import FILES_AT_ONCE

MakeSite = Callable[..., Site]
EAST = BUCKETS["us-east"]
FILES = model_files(4)
WHOLE, SAMPLE = 96, 16  # shards: as many as K3 has, and enough to be killed among


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def many_files(shards: int) -> dict[str, bytes]:
    """Make shards: a quarter in three parts, the others in one request, so that it is quick."""
    large, small = model_files(shards), model_files(shards, shard_bytes=1000)
    names = [shard_name(number, shards) for number in range(1, shards + 1)]
    return large | {name: small[name] for name in names[shards // 4 :]}


MANY = 20  # so many random requests are of all kinds


class Killer:
    """Kills a process at a request: before the store has it, or after, without the answer.

    That is one of its first 40; or, with `spread`, the first of a kind that killed nobody yet.
    """

    def __init__(self, rng: random.Random, *, spread: bool) -> None:
        self._rng = rng
        self._spread = spread
        self._sync: Sync | None = None
        self._known = Event()
        self._left = 0
        self._lock = Lock()
        self.died_at: Counter[str] = Counter()

    def aim(self) -> None:
        """Choose a request of the sync that comes next."""
        self._known.clear()
        self._sync, self._left = None, self._rng.randint(1, 40)

    def at(self, sync: Sync) -> None:
        """Say which sync it is; its first requests wait for that."""
        self._sync = sync
        self._known.set()

    def __call__(self, asked: Asked) -> Fault | None:
        self._known.wait()
        with self._lock:
            self._left -= 1
            here = asked.what not in self.died_at if self._spread else not self._left
            if self._sync is None or not here:
                return None
            self._sync.send_signal(signal.SIGKILL)
            self._sync = None
            self.died_at[asked.what] += 1
            return Fault(after=self._rng.random() < 0.5, drop=True)


def kill_until_done(site: Site, forks: Forks, kills: int, seed: int) -> Killer:
    """Kill a sync again and again, then let it end."""
    rng = random.Random(seed)  # noqa: S311 - which requests, and no secret
    killer = Killer(rng, spread=kills < MANY)
    site.proxy.rule = killer
    for _ in range(kills):
        killer.aim()
        sync = forks.start(site)
        killer.at(sync)
        code, said = sync.wait()
        assert code == -signal.SIGKILL, said
    site.proxy.rule = lambda _asked: None
    code, said = forks.start(site).wait()
    assert code == 0, said
    return killer


@pytest.mark.parametrize(
    ("kind", "through_us", "shards", "kills"),
    [
        pytest.param("moto", True, WHOLE, MANY, id="moto, through us"),
        # The same again: what differs is which requests there are, and how the store takes them.
        pytest.param("moto", False, SAMPLE, 6, id="moto, copied by the store"),
        pytest.param("ministack", True, SAMPLE, 6, id="ministack, through us"),
        pytest.param("ministack", False, SAMPLE, 6, id="ministack, copied by the store"),
    ],
)
def test_killed_again_and_again_it_ends_byte_identical(
    make_site: MakeSite, sync_forks: Forks, kind: str, through_us: bool, shards: int, kills: int
) -> None:
    """At any request, with its answer lost or not; only what was on its way is done twice."""
    site, files = make_site(kind, through_us=through_us), many_files(shards)
    site.publish(files)
    killer = kill_until_done(site, sync_forks, kills, seed=7)
    assert killer.died_at.total() == kills
    assert len(killer.died_at) >= (4 if kills == MANY else kills), "of too few kinds"
    ends_identical(site, files, shards // 4, kills)


def ends_identical(site: Site, files: dict[str, bytes], in_parts: int, kills: int) -> None:
    """Compare with the source, and count what was done more than once."""
    assert site.digests(EAST) == digests(files)
    assert site.uploads(EAST) == []
    through_us = site.ask != site.target_ask
    data = {site.key(name) for name in files}
    parts = site.proxy.count("part") + site.proxy.count("copy part")
    assert parts <= 3 * in_parts + kills * SMALL_LIMITS.concurrency
    reads = [one for one in site.proxy.asked if one.what == "read" and one.key in data]
    back = sum(one.bucket == EAST for one in reads)
    assert back <= len(files) + kills * FILES_AT_ONCE
    first_and_sent = len(files) + (3 * in_parts + len(files) if through_us else len(files))
    lost = kills * (2 * FILES_AT_ONCE + SMALL_LIMITS.concurrency)
    assert len(reads) - back <= first_and_sent + lost


def test_a_store_that_asks_for_less_gets_less(make_site: MakeSite) -> None:
    """503 SlowDown and 500 are the daily bread of a large copy: waited for, not reported."""
    site = make_site(through_us=True)
    site.publish(FILES)
    every = 9

    def busy(asked: Asked) -> Fault | None:
        if asked.number % every:
            return None
        return (
            Fault(code="SlowDown") if asked.number % 2 else Fault(status=500, code="InternalError")
        )

    site.proxy.rule = busy
    site.sync()
    assert site.digests(EAST) == digests(FILES)


def test_a_store_that_stays_busy_is_left_and_gone_on_with(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one message that says how to ask for less; later nothing is read twice."""
    monkeypatch.setattr("infra.weights.store._TRIES", 1)
    site = make_site(through_us=True)
    site.publish(FILES)

    def busy(asked: Asked) -> Fault | None:
        return Fault() if asked.what == "part" and site.proxy.count("part") > 7 else None

    site.proxy.rule = busy
    with pytest.raises(BusyStoreError, match="lower --rate or --concurrency"):
        site.sync()
    goes_on_where_it_ended(site)


def test_expired_credentials_stop_it_once_and_new_ones_go_on(make_site: MakeSite) -> None:
    """A session token lasts hours, a copy may last longer."""
    site = make_site(through_us=True)
    site.publish(FILES)

    def expire(asked: Asked) -> Fault | None:
        gone = site.proxy.count("part") > 7
        return Fault(status=400, code="ExpiredToken") if gone else None

    site.proxy.rule = expire
    with pytest.raises(CredentialsError, match=r"have expired\. Renew them and run it again"):
        site.sync()
    assert not [line for line in site.said if "expired" in line]
    goes_on_where_it_ended(site)


@pytest.mark.parametrize("key_too", [True, False], ids=["of an object", "of a bucket"])
def test_a_refusal_without_a_body_is_asked_for_its_reason(
    make_site: MakeSite, key_too: bool
) -> None:
    """Answers to HEAD have no body: expired credentials are a bare 400 there."""
    site, expired = make_site(through_us=True), Event()
    site.publish(FILES)

    def expire(asked: Asked) -> Fault | None:
        if asked.method == "HEAD" and bool(asked.key) == key_too:
            expired.set()
        return Fault(status=400, code="ExpiredToken") if expired.is_set() else None

    site.proxy.rule = expire
    with pytest.raises(CredentialsError, match=r"have expired\. Renew them and run it again"):
        site.sync()


def goes_on_where_it_ended(site: Site) -> None:
    """Run it again; the sum of both runs is one run, and what was on its way."""
    before = Counter(one.key for one in site.proxy.asked if one.what == "part")
    site.proxy.forget()
    site.proxy.rule = lambda _asked: None
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    shards = len(FILES) - 2
    assert site.proxy.count("part") <= 3 * shards - 7 + SMALL_LIMITS.concurrency
    assert before.total() >= 7
    whole = [f"bytes=0-{len(content) - 1}" for content in FILES.values() if len(content) > 1024]
    read = [one for one in site.proxy.asked if one.what == "read" and one.bucket == SOURCE]
    assert not [one.key for one in read if one.headers.get("range") in whole]


@pytest.mark.parametrize(
    "fault", [Fault(cut_at=1000), Fault(drop=True)], ids=["cut short", "dropped"]
)
def test_a_body_that_breaks_off_is_gone_on_with(make_site: MakeSite, fault: Fault) -> None:
    """From the byte where it ended, of the same object."""
    site = make_site(through_us=True)
    site.publish(FILES)
    broken: Counter[str] = Counter()

    def cut(asked: Asked) -> Fault | None:
        if asked.what != "read" or not asked.key.endswith(".safetensors"):
            return None
        broken[asked.key] += 1
        return fault if broken[asked.key] == 1 else None

    site.proxy.rule = cut
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    if fault.cut_at:
        ranges = [one.headers["range"] for one in site.proxy.asked if "range" in one.headers]
        assert any(text.startswith("bytes=1000-") for text in ranges)


@pytest.mark.parametrize("kind", ["moto", "ministack"])
def test_an_answer_that_is_lost_is_found_out(make_site: MakeSite, kind: str) -> None:
    """The store has made the object; asked again, one of them no longer knows the upload."""
    site = make_site(kind)
    site.publish(FILES)
    lost: set[tuple[str, str]] = set()

    def lose(asked: Asked) -> Fault | None:
        if asked.what not in ("complete", "begin") or (asked.what, asked.key) in lost:
            return None
        lost.add((asked.what, asked.key))
        return Fault(after=True, drop=True)

    site.proxy.rule = lose
    site.sync()
    assert len(lost) == 2 * (len(FILES) - 2)
    assert site.digests(EAST) == digests(FILES)


def test_a_file_that_arrives_wrong_is_sent_again(make_site: MakeSite) -> None:
    """Moto takes a part with a wrong checksum; reading back finds it."""
    site = make_site()
    site.publish(FILES)
    first = site.key(shard_name(1, 4))
    spoilt: list[str] = []

    def spoil(asked: Asked) -> None:
        if asked.what == "parts" and asked.key == first and not spoilt:
            spoilt.append(asked.query["uploadId"][0])
            site.client.upload_part(
                Bucket=EAST,
                Key=first,
                UploadId=spoilt[0],
                PartNumber=1,
                Body=b"z" * PART_BYTES,
            )

    site.proxy.rule = spoil
    site.sync()
    assert spoilt
    assert site.digests(EAST) == digests(FILES)


def test_a_source_that_rots_is_named_after_three_copies(make_site: MakeSite) -> None:
    """Its tag is the same, its bytes are not what the manifest says: no copy can be right."""
    site = make_site()
    site.publish(FILES)
    site.filling().know(lambda _works: None)
    name = shard_name(1, 4)
    keeper = site.places().keeper("source", site.places().source(), site.weights.revision)
    site.put(SOURCE, name, b"r" * len(FILES[name]))
    tag = site.client.head_object(Bucket=SOURCE, Key=site.key(name))["ETag"]
    keeper.note(name, keeper.notes.read[name].model_copy(update={"etag": tag}))
    with pytest.raises(WeightsError, match=f"{name}: wrong after {ATTEMPTS} copies"):
        site.sync()
    assert site.key("k3fleet-manifest.json") not in site.keys(EAST)


def test_a_full_disk_costs_the_local_notes_only(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No weights come to this disk; what was read is noted in the bucket too."""
    site = make_site()
    site.publish(FILES)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    site.sync()
    assert site.digests(EAST) == digests(FILES)
    told = [line for line in site.said if "No space left on device" in line]
    assert len(told) == len({line.partition(":")[0] for line in told}) == 2


def test_a_store_out_of_reach_is_named(make_site: MakeSite, tmp_path: Path) -> None:
    """With the way on, and without a traceback."""
    site = make_site()
    site.ask = site.target_ask = "http://127.0.0.1:9"
    site.write_fleet()
    with pytest.raises(StoreError, match="cannot be reached"):
        site.sync()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(make_site: MakeSite, sync_forks: Forks, number: int) -> None:
    """The lock is given back, so that the next run need not wait for it."""
    site = make_site(through_us=True)
    site.publish(FILES)
    begun: list[Sync] = []

    def stop(asked: Asked) -> None:
        if asked.what == "part" and begun:
            begun[0].send_signal(number)

    site.proxy.rule = stop
    begun.append(sync_forks.start(site))
    code, said = begun[0].wait()
    assert code == 128 + number, said
    assert site.lock_key not in site.keys(EAST)
    site.proxy.rule = lambda _asked: None
    site.sync()
    assert site.digests(EAST) == digests(FILES)
