"""An AWS account for tests: moto in process, with the rules that moto leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import boto3
import service_models
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID

from infra.bootstrap.calls import Aws

service_models.share()

ACCOUNT = DEFAULT_ACCOUNT_ID
OTHER_ACCOUNT = "999999999999"


class Account:
    """One account, what is called in it, and the buckets that are another's."""

    def __init__(self) -> None:
        self.calls: list[str] = []  # operations, in their order
        self.foreign: set[str] = set()
        self.denied: set[str] = set()  # operations that the role may not call
        self.broken_after: int | None = None  # calls that change something, until the line is cut
        self.session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s")  # noqa: S106 - moto takes any
        events = self.session.events
        events.register("before-call", self._before)
        events.register("provide-client-params.s3", self._sent)
        events.register("after-call.s3.GetBucketLifecycleConfiguration", self._whole_lifecycle)
        events.register("after-call.s3.CreateBucket", self._tagged)
        self.sent: dict[str, dict[str, Any]] = {}  # parameters of S3 calls, the last of each
        self.aws = Aws(self.session)
        past = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s")  # noqa: S106
        self._past = Aws(past)

    @property
    def changes(self) -> list[str]:
        """Calls that change something."""
        reading = ("Head", "Get", "Describe", "List")
        return [name for name in self.calls if not name.startswith(reading)]

    def client(self, service: str, region: str = "us-west-2") -> Any:
        """Look at the account past all of these rules."""
        return self._past.client(service, region)

    def _before(self, model: Any, params: dict[str, Any], **_rest: Any) -> Any:
        name = model.name
        if name in self.denied:
            return self._answer(403, "AccessDenied")
        self.calls.append(name)
        if self.broken_after is not None and len(self.changes) > self.broken_after:
            raise KeyboardInterrupt
        # S3 documents it for every call; moto lets another account's owner through.
        owner = params["headers"].get("x-amz-expected-bucket-owner", ACCOUNT)
        bucket = str(params.get("context", {}).get("s3_redirect", {}).get("bucket", ""))
        if bucket in self.foreign and name == "CreateBucket":
            return self._answer(409, "BucketAlreadyExists")
        if bucket in self.foreign or owner != ACCOUNT:
            return self._answer(403, "403" if name == "HeadBucket" else "AccessDenied")
        return None

    def _sent(self, params: dict[str, Any], model: Any, **_rest: Any) -> None:
        self.sent[model.name] = params

    def _whole_lifecycle(self, parsed: dict[str, Any], **_rest: Any) -> None:
        """Put back what moto forgets: how many versions are kept whatever their age."""
        if "Rules" in parsed and (put := self.sent.get("PutBucketLifecycleConfiguration")):
            parsed["Rules"] = put["LifecycleConfiguration"]["Rules"]

    def _tagged(self, parsed: dict[str, Any], **_rest: Any) -> None:
        """Put on the tags with which S3 makes a bucket; moto does not read them."""
        sent = self.sent["CreateBucket"]
        tags = sent.get("CreateBucketConfiguration", {}).get("Tags")
        if tags and "Error" not in parsed:
            self.client("s3").put_bucket_tagging(Bucket=sent["Bucket"], Tagging={"TagSet": tags})

    @staticmethod
    def _answer(status: int, code: str) -> Any:
        return SimpleNamespace(status_code=status), {
            "Error": {"Code": code, "Message": "hunter2 in a body"},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}},
        }


@contextmanager
def aws_account() -> Iterator[Account]:
    """Give an empty account."""
    with mock_aws():
        yield Account()
