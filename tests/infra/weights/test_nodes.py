"""The weights stage of a node, filled from its region's bucket by the script for real."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from fake_hub import FakeHub, FakeNode
from s3_servers import CREDENTIALS, Asked, Fault, proxy
from weights_site import BUCKETS, Site, model_files, shard_name

from fleet.weights_spec import StoreSpec
from infra.render import CHARTS
from infra.staging import bucket_url

SCRIPT = CHARTS / "platform/stage-weights.py"
EAST = BUCKETS["us-east"]
MANIFEST = "k3fleet-manifest.json"
PREFIX = "weights.k3fleet.io/"
FILES = model_files(4)
FIRST = shard_name(1, 4)


class NodeStage:
    """One node whose region has a bucket."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.root = folder / "weights"
        for made in (self.root, folder / "hf"):
            made.mkdir()
        (folder / "token").write_text("t0k3n")
        self.hub = FakeHub(folder / "hf")
        self.node = FakeNode("node-1", {})
        self.bucket: dict[str, Any] = {
            "url": f"{site.proxy.url}/{EAST}",
            "prefix": f"{site.prefix}/",
            "region": "us-east-1",
            "hub_fallback": False,
            "sts": site.proxy.url,
        }
        self.env = {"AWS_ACCESS_KEY_ID": "AK1", "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-node"}

    @property
    def item(self) -> dict[str, str]:
        return {"repo": self.site.weights.repo, "revision": self.site.weights.revision}

    def run(self, **pinned: str) -> tuple[int, str]:
        plan = {
            "wanted": [{**self.item, **pinned}],
            "bucket": self.bucket,
            "keep_previous": 1,
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
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(file), "--once"],
            env={"PATH": path, "NODE_NAME": "node-1", **self.env},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return done.returncode, done.stderr

    @property
    def ready(self) -> bool:
        return self.node.labels == {PREFIX + self.site.weights.revision: "ready"}

    def content(self) -> dict[str, bytes]:
        folder = self.root / self.site.weights.revision
        return {name: (folder / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def filled(moto_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A region that was filled once."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        site = Site(folder=tmp_path_factory.mktemp("filled"), kind="moto", url=moto_url)
        site.make_buckets()
        site.publish(FILES)
        site.sync()
        yield site


@pytest.fixture
def stage(filled: Site, tmp_path: Path) -> Iterator[NodeStage]:
    """One node of it, behind a proxy that counts and breaks."""
    manifest = filled.get(EAST, MANIFEST)
    with proxy(filled.url) as store:
        filled.proxy = store
        stage = NodeStage(filled, tmp_path)
        yield stage
        stage.node.close()
    filled.put(EAST, FIRST, FILES[FIRST])
    filled.put(EAST, MANIFEST, manifest)


def test_a_node_is_filled_from_its_bucket(stage: NodeStage) -> None:
    """Every file of the manifest, no request to the hub, and no key in what is said."""
    code, said = stage.run()
    assert (code, stage.ready) == (0, True), said
    assert stage.content() == FILES
    assert stage.hub.downloaded == []
    signed = {one.headers["authorization"].split("/")[0] for one in stage.site.proxy.asked}
    assert signed == {"AWS4-HMAC-SHA256 Credential=AK1"}
    assert "s3cr3t" not in said


def test_a_bucket_for_anybody_is_asked_without_a_key(stage: NodeStage) -> None:
    """What only its network keeps others from needs no Secret on every node."""
    stage.env = {}
    for key in stage.site.keys(EAST):
        stage.site.client.put_object_acl(Bucket=EAST, Key=key, ACL="public-read")
    code, said = stage.run()
    assert (code, stage.ready) == (0, True), said
    assert not [one for one in stage.site.proxy.asked if "authorization" in one.headers]


ROLE = "arn:aws:iam::123456789012:role/weights-read"


@pytest.fixture
def by_role(stage: NodeStage, tmp_path: Path) -> NodeStage:
    """A node whose account has a token of the cluster, and no keys."""
    token = tmp_path / "identity"
    token.write_text("web-t0k3n\n")
    stage.env = {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    return stage


def test_a_node_takes_the_role_of_its_account(by_role: NodeStage) -> None:
    """No key lies in the cluster: STS gives some for an hour, once for all files."""
    code, said = by_role.run()
    assert (code, by_role.ready) == (0, True), said
    asked = by_role.site.proxy.asked
    assert [one.method for one in asked].count("POST") == 1
    reads = [one for one in asked if one.method == "GET"]
    signed = {one.headers["authorization"].split("=")[1].split("/")[0] for one in reads}
    assert len(signed) == 1
    assert signed.pop().startswith("ASIA"), "not signed by keys of STS"
    assert all(one.headers.get("x-amz-security-token") for one in reads)
    assert "t0k3n" not in said


@pytest.mark.parametrize(
    "fault",
    [Fault(status=403, code="AccessDenied"), Fault(status=400, code="InvalidIdentityToken")],
)
def test_a_role_that_is_refused_is_named(by_role: NodeStage, fault: Fault) -> None:
    """With what to look at, and neither a traceback nor the token."""
    by_role.site.proxy.rule = lambda asked: fault if asked.method == "POST" else None
    code, said = by_role.run()
    assert (code, by_role.ready, "Traceback" in said) == (1, False, False)
    assert f"{ROLE}: HTTP {fault.status} '{fault.code}'. Check the role's trust policy" in said
    assert "t0k3n" not in said
    assert [one.method for one in by_role.site.proxy.asked] == ["POST"]


def test_keys_of_a_role_are_renewed_before_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.5 TB take longer than an hour on a slow day; a clock that only goes on decides."""
    script = loaded("weights_signing")
    given = iter([{"id": "first"}, {"id": "second"}])
    monkeypatch.setattr(script, "assume_role", lambda _sts: next(given))
    # Each question for kept keys looks at the clock; each for new ones at their beginning.
    times = iter([0.0, 1799.0, 1800.0, 1800.0, 3599.0])
    role = script.RoleKeys(lambda: next(times))
    ids = [role.keys("https://sts")["id"] for _ in range(4)]
    assert ids == ["first", "first", "second", "second"]


def test_a_bucket_that_trickles_is_left() -> None:
    """A byte a second resets the time-out each time, and the node would wait for ever."""
    script = loaded("weights_bucket")
    now_s = 0.0

    class Drip:
        def read1(self, _count: int) -> bytes:
            nonlocal now_s
            now_s += 1
            return b"x"

    came = bytearray()
    with pytest.raises(script.BucketError, match="b: trickles: 30 bytes in 30 s") as caught:
        for piece in script.pieces(Drip(), 10_000, "b", lambda: now_s):
            came += piece
    assert (len(came), caught.value.passes) == (30, True)


def loaded(name: str) -> Any:
    """Load a script of the stage, as its neighbours do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHARTS / "platform"))
        return importlib.import_module(name)


def test_the_signature_is_the_one_of_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with botocore's, for a key with all the characters that a name may have."""
    script = loaded("weights_signing")
    keys = {"ID": "AK1", "SECRET": "secret", "TOKEN": "t"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["ID"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["SECRET"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", keys["TOKEN"])
    url = "https://b.s3.eu-west-1.amazonaws.com/models/r/" + quote("a_b.c+d=e@f,g-h/x", "/~")
    ours = script.signature({"region": "eu-west-1"}, url)
    request = AWSRequest("GET", url, headers={"X-Amz-Content-SHA256": script.NO_PAYLOAD})
    signer = S3SigV4Auth(Credentials(keys["ID"], keys["SECRET"], keys["TOKEN"]), "s3", "eu-west-1")
    request.context["timestamp"] = ours["x-amz-date"]
    request.headers["X-Amz-Date"] = ours["x-amz-date"]
    request.headers["X-Amz-Security-Token"] = keys["TOKEN"]
    canonical = signer.canonical_request(request)
    theirs = signer.signature(signer.string_to_sign(request, canonical), request)
    assert ours["Authorization"].rpartition("Signature=")[2] == theirs


@pytest.mark.parametrize("fault", [Fault(), Fault(cut_at=700)], ids=["503", "cut short"])
def test_a_bucket_that_fails_now_and_then_is_asked_again(stage: NodeStage, fault: Fault) -> None:
    """Each file once; what has arrived of it is kept."""
    failed: Counter[str] = Counter()

    def fail(asked: Asked) -> Fault | None:
        failed[asked.key] += 1
        return fault if failed[asked.key] == 1 and asked.key.endswith(FIRST) else None

    stage.site.proxy.rule = fail
    code, said = stage.run()
    assert (code, stage.ready) == (0, True), said
    assert stage.content() == FILES
    asked = [one.headers["range"] for one in stage.site.proxy.asked if one.key.endswith(FIRST)]
    assert asked[1].startswith("bytes=700-" if fault.cut_at else "bytes=0-")


def test_a_damaged_shard_never_makes_a_node_ready(stage: NodeStage) -> None:
    """The manifest says what it must be, whatever the bucket gives."""
    stage.site.put(EAST, FIRST, b"x" * len(FILES[FIRST]))
    code, said = stage.run()
    assert (code, stage.ready) == (1, False)
    assert f"{FIRST}: wrong after 3 downloads" in said


def test_without_a_manifest_nothing_is_taken(stage: NodeStage) -> None:
    """It is written last: the region is not whole yet."""
    stage.site.client.delete_object(Bucket=EAST, Key=stage.site.key(MANIFEST))
    code, said = stage.run()
    assert (code, stage.ready) == (1, False)
    assert "HTTP 404. Run `k3fleet weights sync`" in said
    assert stage.hub.downloaded == []


def test_the_hub_is_asked_only_where_that_is_wanted(stage: NodeStage) -> None:
    """1.5 TB for each node over the way out of the region is a choice."""
    stage.site.client.delete_object(Bucket=EAST, Key=stage.site.key(MANIFEST))
    stage.bucket["hub_fallback"] = True
    stage.hub.publish(stage.item["repo"], stage.item["revision"], FILES)
    code, said = stage.run()
    assert (code, stage.ready) == (0, True), said
    assert "Asking the hub instead" in said
    assert len(stage.hub.downloaded) == len(FILES)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"repo": "moonshotai/Kimi-K2"}, "is of another model"),
        ({"files": [{"name": "../../etc/x", "bytes": 1, "sha256": "a"}]}, "lead elsewhere"),
        ({"files": [{"name": "/etc/x", "bytes": 1, "sha256": "a"}]}, "lead elsewhere"),
        ({"files": [{"name": "a\0b", "bytes": 1, "sha256": "a"}]}, "lead elsewhere"),
        ({"files": [{"name": ".k3fleet-ready", "bytes": 1, "sha256": "a"}]}, "lead elsewhere"),
        ({"files": {}}, "is no manifest"),
    ],
)
def test_a_hostile_manifest_writes_nothing(
    stage: NodeStage, change: dict[str, object], why: str
) -> None:
    """The stage runs as root on the node."""
    content = json.loads(stage.site.get(EAST, MANIFEST))
    if change == {"files": {}}:
        del content["files"]
    stage.site.put(
        EAST, MANIFEST, json.dumps(content | {k: v for k, v in change.items() if v}).encode()
    )
    code, said = stage.run()
    assert (code, stage.ready) == (1, False)
    assert why in said
    written = {path.name for path in stage.root.rglob("*") if path.is_file()}
    assert written <= {".k3fleet-item.json", ".k3fleet-lock"}


def test_a_pinned_manifest_is_the_only_one(stage: NodeStage) -> None:
    """Whoever writes the bucket cannot write the fleet file."""
    code, said = stage.run(manifest="0" * 64)
    assert (code, stage.ready) == (1, False)
    assert "is not the one that the fleet file pins" in said


@pytest.mark.parametrize(
    ("store", "url"),
    [
        ({}, "https://k3-w.s3.us-east-1.amazonaws.com"),
        ({"bucket": "k3.w"}, "https://s3.us-east-1.amazonaws.com/k3.w"),
        ({"endpoint_url": "https://cw.example"}, "https://cw.example/k3-w"),
        (
            {"endpoint_url": "https://cw.example", "addressing": "virtual"},
            "https://k3-w.cw.example",
        ),
    ],
)
def test_a_node_asks_the_bucket_at_its_address(store: dict[str, str], url: str) -> None:
    """Amazon's, or that of another store."""
    assert bucket_url(StoreSpec.model_validate({"bucket": "k3-w", **store})) == url


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"files": []}, "was damaged or edited"),
        ({"files": [{"name": "config.json", "bytes": 2, "sha256": "a"}]}, "was damaged or edited"),
        ({"files": [{"name": "x", "bytes": float("inf"), "sha256": "a"}]}, "is no manifest"),
        ({"files": [{"name": "x", "bytes": float("nan"), "sha256": "a"}]}, "is no manifest"),
        ({"content_sha256": "0" * 64}, "was damaged or edited"),
    ],
)
def test_a_manifest_that_lacks_files_makes_no_node_ready(
    stage: NodeStage, change: dict[str, object], why: str
) -> None:
    """An engine would start from nothing, or from half of the weights."""
    content = json.loads(stage.site.get(EAST, MANIFEST))
    stage.site.put(EAST, MANIFEST, json.dumps(content | change).encode())
    code, said = stage.run()
    assert (code, stage.ready, "Traceback" in said) == (1, False, False)
    assert why in said


def test_a_node_follows_no_bucket_elsewhere(stage: NodeStage) -> None:
    """The signature and a session token would go along, from a pod that is root."""
    stage.env["AWS_SESSION_TOKEN"] = "t0k3n-of-the-role"  # noqa: S105 - nobody's
    heard: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(str(self.headers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Redirector(Elsewhere):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{other.server_port}/")
            self.end_headers()

    other = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    first = ThreadingHTTPServer(("127.0.0.1", 0), Redirector)
    for server in (other, first):
        Thread(target=server.serve_forever, daemon=True).start()
    stage.bucket["url"] = f"http://127.0.0.1:{first.server_port}/{EAST}"
    try:
        code, said = stage.run()
    finally:
        for server in (other, first):
            server.shutdown()
            server.server_close()
    assert (code, heard, "HTTP 307" in said) == (1, [], True)
