"""List what makes a bucket fit to hold a state: one entry per setting.

Each entry reads the setting, says what it should be, and writes it. What others
have added beside ours stays: statements of a policy, rules of a lifecycle, tags.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from infra.aws_bucket import ENCRYPTION, OWNERSHIP, PRIVATE, UNFINISHED_UPLOAD_DAYS, denials
from infra.bootstrap.calls import Client, code
from infra.bootstrap.home import Home

# Settings as S3's own documents hold them.
Value = Any

_OLD_VERSIONS_DAYS = 90  # as long as a rollback is worth anything
_OLD_VERSIONS_KEPT = 10
_RULE = "k3fleet-old-versions"
_ABSENT = frozenset(
    {
        "NoSuchBucketPolicy",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "OwnershipControlsNotFoundError",
        "ServerSideEncryptionConfigurationNotFoundError",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """One setting of the bucket."""

    name: str
    what: str  # what the change does, for the list that is shown
    read: Callable[[Client, Mapping[str, str]], Value]
    wanted: Callable[[Home, str, Value], Value]  # home, ARN of the key, what is there
    put: Callable[[Client, Mapping[str, str], Value], object]
    # For a bucket that somebody else made: what to do where this is missing; None: his choice.
    by_hand: str | None = None
    # How two values are compared: a store may write the same down in another way.
    plain: Callable[[Value], Value] = lambda value: value


def read(client: Client, home: Home, aspect: Aspect) -> Value:
    """Read one setting; None where there is none."""
    try:
        return aspect.read(client, place(home))
    except ClientError as error:
        if code(error) in _ABSENT:
            return None
        raise


def place(home: Home) -> dict[str, str]:
    """Name the bucket in a call, which S3 refuses when it is another account's."""
    return {"Bucket": home.bucket, "ExpectedBucketOwner": home.account}


def bucket_policy(home: Home, key_arn: str, found: Value) -> Value:
    """Put our statements into the policy that is there."""
    ours = denials(home.bucket_arn, key_arn)
    names = {item["Sid"] for item in ours}
    others = [item for item in (found or {}).get("Statement", []) if item.get("Sid") not in names]
    return {"Version": "2012-10-17", "Statement": [*others, *ours]}


def _encryption(_home: Home, key_arn: str, _found: Value) -> Value:
    default = {"SSEAlgorithm": ENCRYPTION, "KMSMasterKeyID": key_arn}
    return [{"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}]


def _lifecycle(_home: Home, _key_arn: str, found: Value) -> Value:
    ours = {
        "ID": _RULE,
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {
            "NoncurrentDays": _OLD_VERSIONS_DAYS,
            "NewerNoncurrentVersions": _OLD_VERSIONS_KEPT,
        },
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UNFINISHED_UPLOAD_DAYS},
    }
    return [*(rule for rule in found or [] if rule.get("ID") != _RULE), ours]


def _plain_lifecycle(found: Value) -> Value:
    """Forget the order of rules, and how "for all objects" is written; by hand it is any of three.

    Source: S3 API reference, LifecycleRule: Filter, and Prefix from before there were filters.
    """
    rules = [dict(rule) for rule in found or []]
    for rule in rules:
        whole = {"Prefix": rule.pop("Prefix", "")}
        rule["Filter"] = rule.get("Filter") or whole
    return sorted(rules, key=lambda rule: str(rule.get("ID", "")))


def _tags(home: Home, _key_arn: str, found: Value) -> Value:
    # A second fleet in the same bucket leaves the first one's name.
    return {**home.tags, **(found or {})}


def _put_tags(client: Client, where: Mapping[str, str], value: Value) -> object:
    tags = [{"Key": key, "Value": text} for key, text in value.items()]
    return client.put_bucket_tagging(**where, Tagging={"TagSet": tags})


def _read_encryption(client: Client, where: Mapping[str, str]) -> Value:
    found = client.get_bucket_encryption(**where)["ServerSideEncryptionConfiguration"]["Rules"]
    keys = ("ApplyServerSideEncryptionByDefault", "BucketKeyEnabled")
    return [{key: rule[key] for key in keys if key in rule} for rule in found]


ASPECTS: tuple[Aspect, ...] = (
    Aspect(
        name="public access",
        what="block all public access",
        read=lambda s3, at: s3.get_public_access_block(**at)["PublicAccessBlockConfiguration"],
        wanted=lambda _home, _key, _found: dict(PRIVATE),
        put=lambda s3, at, value: s3.put_public_access_block(
            **at, PublicAccessBlockConfiguration=value
        ),
        by_hand="block all public access: aws s3api put-public-access-block",
    ),
    Aspect(
        name="ownership",
        what="let the account own every object, and end access lists",
        read=lambda s3, at: s3.get_bucket_ownership_controls(**at)["OwnershipControls"]["Rules"],
        wanted=lambda _home, _key, _found: [{"ObjectOwnership": OWNERSHIP}],
        put=lambda s3, at, value: s3.put_bucket_ownership_controls(
            **at, OwnershipControls={"Rules": value}
        ),
    ),
    Aspect(
        name="encryption",
        what="encrypt with the key",
        read=_read_encryption,
        wanted=_encryption,
        put=lambda s3, at, value: s3.put_bucket_encryption(
            **at, ServerSideEncryptionConfiguration={"Rules": value}
        ),
    ),
    Aspect(
        name="versioning",
        what="keep old versions",
        read=lambda s3, at: s3.get_bucket_versioning(**at).get("Status"),
        wanted=lambda _home, _key, _found: "Enabled",
        put=lambda s3, at, value: s3.put_bucket_versioning(
            **at, VersioningConfiguration={"Status": value}
        ),
        by_hand="turn versioning on: aws s3api put-bucket-versioning",
    ),
    Aspect(
        name="policy",
        what="deny requests without TLS or with another key, and deletion of the bucket",
        read=lambda s3, at: json.loads(s3.get_bucket_policy(**at)["Policy"]),
        wanted=bucket_policy,
        put=lambda s3, at, value: s3.put_bucket_policy(**at, Policy=json.dumps(value)),
    ),
    Aspect(
        name="lifecycle",
        what=f"drop versions that are {_OLD_VERSIONS_DAYS} days old, but keep "
        f"{_OLD_VERSIONS_KEPT}; drop unfinished uploads after {UNFINISHED_UPLOAD_DAYS} days",
        read=lambda s3, at: s3.get_bucket_lifecycle_configuration(**at)["Rules"],
        wanted=_lifecycle,
        put=lambda s3, at, value: s3.put_bucket_lifecycle_configuration(
            **at, LifecycleConfiguration={"Rules": value}
        ),
        plain=_plain_lifecycle,
    ),
    Aspect(
        name="tags",
        what="say whose it is",
        read=lambda s3, at: {
            tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(**at)["TagSet"]
        },
        wanted=_tags,
        put=_put_tags,
    ),
)
