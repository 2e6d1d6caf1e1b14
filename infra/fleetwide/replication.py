"""Declare that S3 copies what is put into the source, and who may do so.

A deletion at the source is not copied: weights that run in a region stay there.
S3 copies what comes after the rules; what was there before is `k3fleet weights
sync`'s to copy.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws_bucket import bucket_arn, host_suffix
from infra.fleetwide.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One bucket, its key, and the versioning without which S3 copies nothing."""

    region: str
    bucket: str
    key: pulumi.Output[str]
    versioning: aws.s3.BucketVersioning

    @property
    def arn(self) -> str:
        """ARN of the bucket."""
        return bucket_arn(self.bucket, self.region)


def declare_replication(home: Home, *, source: Copy, copies: Sequence[Copy]) -> None:
    """Declare the role and one rule per copy."""
    role = aws.iam.Role(
        f"weights-replication-{source.region}",
        name=f"{home.name}-weights-replication",
        description=f"Copies weights of k3fleet {home.fleet} to its regions",
        assume_role_policy=json.dumps(_trust(source.arn, home.spec.account)),
        tags=home.tags,
        opts=home.in_region(source.region),
    )
    keys = pulumi.Output.all(source.key, *(copy.key for copy in copies))
    rights = aws.iam.RolePolicy(
        f"weights-replication-{source.region}",
        role=role.id,
        policy=keys.apply(lambda arns: json.dumps(_rights(source, copies, arns))),
        opts=home.in_region(source.region),
    )
    aws.s3.BucketReplicationConfig(
        f"weights-{source.region}",
        bucket=source.bucket,
        role=role.arn,
        rules=[_rule(copy) for copy in copies],
        opts=home.in_region(
            source.region,
            depends_on=[rights, source.versioning, *(copy.versioning for copy in copies)],
        ),
    )


def priority(region: str) -> int:
    """Give a rule's number: S3 wants them different, and a new copy must not change the others."""
    return zlib.crc32(region.encode()) & 0x7FFFFFFF


def _rule(copy: Copy) -> Any:
    return {
        "id": f"to-{copy.region}",
        "priority": priority(copy.region),
        "status": "Enabled",
        "filter": {"prefix": ""},
        "delete_marker_replication": {"status": "Disabled"},
        "source_selection_criteria": {"sse_kms_encrypted_objects": {"status": "Enabled"}},
        "destination": {
            "bucket": copy.arn,
            "encryption_configuration": {"replica_kms_key_id": copy.key},
            "metrics": {"status": "Enabled"},
        },
    }


def _trust(source_arn: str, account: str) -> Mapping[str, object]:
    """Let S3 take the role, for this bucket of this account and no other."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {"aws:SourceAccount": account},
            "ArnLike": {"aws:SourceArn": source_arn},
        },
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _rights(source: Copy, copies: Sequence[Copy], key_arns: Sequence[str]) -> Mapping[str, object]:
    """Give what the S3 user guide's "Replicating encrypted objects" asks for, and no more."""
    own_key, *copy_keys = key_arns
    copy_objects = [f"{copy.arn}/*" for copy in copies]
    return {
        "Version": "2012-10-17",
        "Statement": [
            _allow(["s3:GetReplicationConfiguration", "s3:ListBucket"], [source.arn]),
            _allow(
                [
                    "s3:GetObjectVersionForReplication",
                    "s3:GetObjectVersionAcl",
                    "s3:GetObjectVersionTagging",
                ],
                [f"{source.arn}/*"],
            ),
            _allow(["s3:ReplicateObject", "s3:ReplicateTags"], copy_objects),
            _allow(["kms:Decrypt"], [own_key], _through_s3([source])),
            # GenerateDataKey: the copies have bucket keys.
            _allow(["kms:Encrypt", "kms:GenerateDataKey"], copy_keys, _through_s3(copies)),
        ],
    }


def _through_s3(buckets: Sequence[Copy]) -> Mapping[str, object]:
    """Let a key be used by S3 only, for these buckets; with bucket keys it names the bucket."""
    arns = [arn for item in buckets for arn in (item.arn, f"{item.arn}/*")]
    services = [f"s3.{item.region}.{host_suffix(item.region)}" for item in buckets]
    return {"StringLike": {"kms:ViaService": services, "kms:EncryptionContext:aws:s3:arn": arns}}


def _allow(
    actions: list[str], resources: list[str], condition: Mapping[str, object] | None = None
) -> Mapping[str, object]:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement
