"""A page of a proxy where AWS should have answered: botocore's error for it is none of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import boto3
import pytest
from proxy_page import proxy_page

from fleet.errors import FleetError
from infra.bootstrap.calls import connect
from infra.capacity.aws_access import AwsAccess
from infra.capacity.aws_blocks import read_blocks
from infra.provision.account_aws import require_account
from infra.state.bucket import BucketState
from infra.state.store import StackName
from infra.weights.store_errors import asked

REGION = "us-east-1"
URL = "s3://k3-state/prod?region=us-east-1"


def _blocks() -> object:
    return read_blocks(AwsAccess(session=boto3.Session()), REGION)


def _account() -> object:
    return require_account(REGION, SimpleNamespace(account="123456789012", region=REGION))


def _state() -> object:
    return BucketState(url=URL).locks(StackName(project="k3fleet-serving", stack="serving-us-east"))


def _caller() -> object:
    return connect(None).caller(REGION)


def _weights() -> object:
    with asked("s3://k3-weights"):
        return boto3.client("s3", region_name=REGION).list_objects_v2(Bucket="k3-weights")


@pytest.fixture(autouse=True)
def _page(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with proxy_page() as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_CONFIG_FILE": "/nonexistent",
        }.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.parametrize("ask", [_blocks, _account, _state, _caller, _weights])
def test_a_page_is_no_bug_of_ours(ask: Callable[[], object]) -> None:
    """An exit code and a sentence, and nothing of the page, which may hold anything."""
    with pytest.raises(FleetError) as caught:
        ask()
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 300
