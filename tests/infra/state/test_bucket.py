"""State in a bucket: moto stands for S3, on this machine's loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import boto3
import pytest
from moto.server import ThreadedMotoServer

from fleet.errors import AccountError, ApplyError, BusyError, CloudError, StateError
from infra.provision.account_aws import require_account
from infra.state.bucket import BucketState
from infra.state.locks import release_stale_locks
from infra.state.store import Lock, StackName

NAME = StackName(project="k3fleet-serving", stack="serving-us-east")
NOW = datetime(2026, 11, 30, 12, 10, tzinfo=UTC)
LOCK = {"pid": 12, "hostname": "other", "username": "me", "timestamp": "2026-11-30T12:00:00Z"}
KEY = "prod/.pulumi/locks/organization/k3fleet-serving/serving-us-east/1.json"
MOTO_ACCOUNT = "123456789012"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def store(endpoint: str) -> Iterator[BucketState]:
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    s3.create_bucket(Bucket="k3-state")
    s3.put_bucket_versioning(Bucket="k3-state", VersioningConfiguration={"Status": "Enabled"})
    yield at(endpoint)
    bucket = boto3.resource("s3", endpoint_url=endpoint, region_name="us-east-1").Bucket("k3-state")
    bucket.object_versions.delete()
    bucket.delete()


def at(endpoint: str, bucket: str = "k3-state") -> BucketState:
    query = f"region=us-east-1&endpoint={endpoint}&s3ForcePathStyle=true"
    return BucketState(url=f"s3://{bucket}/prod?{query}", secrets_provider="awskms://alias/k3")


def put(endpoint: str, key: str, body: object) -> None:
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    s3.put_object(Bucket="k3-state", Key=key, Body=json.dumps(body).encode())


def test_a_stack_is_there_once_it_has_a_checkpoint(store: BucketState, endpoint: str) -> None:
    """Below the address's folder, and not that of a stack whose name begins alike."""
    put(endpoint, "prod/.pulumi/stacks/k3fleet-serving/serving-us-east.json.bak", {})
    assert store.exists(NAME) is False
    put(endpoint, "prod/.pulumi/stacks/k3fleet-serving/serving-us-east.json.gz", {})
    assert store.exists(NAME) is True


def test_a_lock_names_its_holder_and_its_age(store: BucketState, endpoint: str) -> None:
    """Who reads it has to find that process."""
    put(endpoint, KEY, LOCK)
    [lock] = store.locks(NAME)
    assert lock.told(NOW) == "process 12@other of me, for 10m"
    with pytest.raises(BusyError, match="12@other"):
        release_stale_locks(store, NAME, NOW)
    store.remove(lock)
    store.remove(lock)  # somebody else was faster
    assert store.locks(NAME) == []


def test_a_lock_shows_no_secret() -> None:
    """Its words are those of whoever can write to the state."""
    planted = "hf_abcdefghijklmnopqrst"
    text = json.dumps({**LOCK, "username": planted})
    assert planted not in Lock.read("lock", text).told(NOW)


def test_a_lock_that_is_none_is_not_removed(store: BucketState, endpoint: str) -> None:
    """It may be one of a newer Pulumi."""
    put(endpoint, KEY, ["?"])
    with pytest.raises(ApplyError, match="cannot be read"):
        store.locks(NAME)


def test_a_bucket_without_versions_is_refused(store: BucketState, endpoint: str) -> None:
    """A broken state could not be taken back."""
    store.prepare()
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    s3.put_bucket_versioning(Bucket="k3-state", VersioningConfiguration={"Status": "Suspended"})
    with pytest.raises(StateError, match=r"keeps no versions.*bootstrap"):
        at(endpoint).prepare()


def test_a_bucket_that_is_not_there_is_named(store: BucketState, endpoint: str) -> None:
    """With the command that makes it."""
    with pytest.raises(StateError, match=r"k3-typo.*NoSuchBucket.*bootstrap"):
        at(endpoint, "k3-typo").prepare()


def test_a_store_that_cannot_be_reached_is_said_so() -> None:
    """Nothing was changed, and the user may try again."""
    with pytest.raises(StateError, match="cannot be reached"):
        at("http://127.0.0.1:9").prepare()


def test_secrets_of_a_shared_state_need_a_shared_key(endpoint: str) -> None:
    """A passphrase made up on this machine would lock the others out."""
    store = BucketState(url=at(endpoint).url)
    with pytest.raises(StateError, match="secrets_provider"):
        store.variables({})
    given = {"PULUMI_CONFIG_PASSPHRASE_FILE": "/p"}
    assert store.variables({**given, "OTHER": "x"}) == given


class Cluster:
    """What a fleet file says of a region in AWS."""

    region = "us-east-1"

    def __init__(self, account: str) -> None:
        self.account = account


def test_credentials_of_another_account_are_refused(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that was logged in elsewhere would make the cluster there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
    require_account("us-east", Cluster(MOTO_ACCOUNT))
    with pytest.raises(AccountError, match=f"of account {MOTO_ACCOUNT}.*in 999999999999"):
        require_account("us-east", Cluster("999999999999"))


def test_no_credentials_at_all_are_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not as a bug of ours."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AccountError, match="whose credentials"):
        require_account("us-east", Cluster(MOTO_ACCOUNT))


def test_an_account_that_cannot_be_asked_for_is_no_other_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The way to the cloud is what to look at, not the login."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
    with pytest.raises(CloudError, match="AWS cannot be asked"):
        require_account("us-east", Cluster(MOTO_ACCOUNT))
