"""Say what holds for every S3 bucket of k3fleet, whoever makes it: bootstrap or Pulumi."""

from __future__ import annotations

from collections.abc import Mapping

# As S3's own API spells them; Pulumi spells the first letter small.
PRIVATE: Mapping[str, bool] = {
    "BlockPublicAcls": True,
    "BlockPublicPolicy": True,
    "IgnorePublicAcls": True,
    "RestrictPublicBuckets": True,
}
OWNERSHIP = "BucketOwnerEnforced"  # no access lists: the account owns every object
ENCRYPTION = "aws:kms"
UNFINISHED_UPLOAD_DAYS = 7  # parts of an upload that nobody completes are paid for ever

Statement = dict[str, object]


def denials(bucket_arn: str, key_arn: str) -> list[Statement]:
    """Deny what is not encrypted on its way or in place, and the deletion of the bucket.

    A request without an encryption header is let through: the bucket then
    encrypts by its own default, and Pulumi sends none. S3 calls a missing
    header unequal too, hence the `Null`.
    """
    both = [bucket_arn, f"{bucket_arn}/*"]
    header = "s3:x-amz-server-side-encryption"
    key = f"{header}-aws-kms-key-id"
    return [
        _deny("K3fleetTlsOnly", "s3:*", both, {"Bool": {"aws:SecureTransport": "false"}}),
        _deny("K3fleetTls12", "s3:*", both, {"NumericLessThan": {"s3:TlsVersion": "1.2"}}),
        _deny(
            "K3fleetEncrypted",
            "s3:PutObject",
            both[1],
            {"Null": {header: "false"}, "StringNotEquals": {header: ENCRYPTION}},
        ),
        _deny(
            "K3fleetOwnKey",
            "s3:PutObject",
            both[1],
            {"Null": {key: "false"}, "StringNotEquals": {key: key_arn}},
        ),
        _deny("K3fleetStays", "s3:DeleteBucket", both[0], {}),
    ]


def bucket_arn(bucket: str, region: str) -> str:
    """Name a bucket as policies do."""
    return f"arn:{partition(region)}:s3:::{bucket}"


def partition(region: str) -> str:
    """Say which of Amazon's separate worlds a region is in."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def host_suffix(region: str) -> str:
    """Give the domain of Amazon's services in a region."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def _deny(
    sid: str, action: str, resource: str | list[str], condition: Mapping[str, object]
) -> Statement:
    statement: Statement = {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": resource,
    }
    return {**statement, "Condition": condition} if condition else statement
