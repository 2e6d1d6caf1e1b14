"""What the policy of the state's bucket lets through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from infra.bootstrap.aspects import bucket_policy
from infra.bootstrap.home import Home

KEY = "arn:aws:kms:us-west-2:123456789012:key/mrk-1"
SSE = "s3:x-amz-server-side-encryption"
HOME = Home(
    fleet="demo",
    account="123456789012",
    partition="aws",
    bucket="k3-state",
    bucket_region="us-west-2",
    key="alias/k3-state",
    key_region="us-west-2",
    key_is_for_secrets=True,
)
TLS = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3"}


def denied(action: str, request: Mapping[str, str]) -> bool:
    """Judge a request as IAM documents it: a key that is absent counts as unequal."""
    policy = bucket_policy(HOME, KEY, None)
    return any(
        item["Action"] in ("s3:*", action)
        and all(_holds(kind, test, request) for kind, test in item.get("Condition", {}).items())
        for item in policy["Statement"]
    )


def _holds(kind: str, test: Mapping[str, str], request: Mapping[str, str]) -> bool:
    tests: dict[str, Any] = {
        "Bool": lambda key, value: request.get(key) == value,
        "Null": lambda key, value: (key not in request) == (value == "true"),
        "StringNotEquals": lambda key, value: request.get(key) != value,
        "NumericLessThan": lambda key, value: key in request and float(request[key]) < float(value),
    }
    return all(tests[kind](key, value) for key, value in test.items())


@pytest.mark.parametrize(
    ("action", "request_keys", "refused"),
    [
        ("s3:PutObject", {}, False),
        ("s3:PutObject", {SSE: "aws:kms"}, False),
        ("s3:PutObject", {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": KEY}, False),
        ("s3:GetObject", {}, False),
        ("s3:DeleteObject", {}, False),
        ("s3:PutObject", {SSE: "AES256"}, True),
        ("s3:PutObject", {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": f"{KEY}0"}, True),
        ("s3:GetObject", {"aws:SecureTransport": "false"}, True),
        ("s3:GetObject", {"s3:TlsVersion": "1.1"}, True),
        ("s3:DeleteBucket", {}, True),
    ],
)
def test_the_policy_denies_what_is_not_safe_and_nothing_else(
    action: str, request_keys: Mapping[str, str], refused: bool
) -> None:
    """Pulumi sends no encryption header; a policy that asks for one locks it out."""
    assert denied(action, {**TLS, **request_keys}) is refused


def test_the_policy_gives_nobody_anything() -> None:
    """Who may use the bucket is IAM's business."""
    assert {item["Effect"] for item in bucket_policy(HOME, KEY, None)["Statement"]} == {"Deny"}
