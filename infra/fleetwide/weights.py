"""Declare the buckets of the weights: the source, and a copy where racks are."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_aws as aws

from fleet.global_spec import WeightsBucketsSpec
from infra.aws_bucket import (
    ENCRYPTION,
    OWNERSHIP,
    PRIVATE,
    UNFINISHED_UPLOAD_DAYS,
    bucket_arn,
    denials,
)
from infra.fleetwide.home import Home
from infra.fleetwide.keys import declare_keys
from infra.fleetwide.replication import Copy, declare_replication

_OLD_VERSIONS_DAYS = 30  # an overwritten shard is a mistake that is found at the next verify


def declare_weights(home: Home, spec: WeightsBucketsSpec) -> dict[str, Any]:
    """Declare keys, buckets and replication; give the outputs."""
    copies = {copy.region: copy.bucket for copy in spec.copies}
    keys = declare_keys(home, copies)
    buckets = {home.spec.region: spec.bucket, **copies}
    versioned = {
        region: _bucket(home, region, name, keys[region]) for region, name in buckets.items()
    }
    if copies:
        declare_replication(
            home,
            source=Copy(
                region=home.spec.region,
                bucket=spec.bucket,
                key=keys[home.spec.region],
                versioning=versioned[home.spec.region],
            ),
            copies=[
                Copy(region=region, bucket=name, key=keys[region], versioning=versioned[region])
                for region, name in copies.items()
            ],
        )
    return {
        "weights_bucket": spec.bucket,
        "weights_buckets": buckets,
        "weights_key": keys[home.spec.region],
    }


def _bucket(home: Home, region: str, name: str, key: pulumi.Output[str]) -> aws.s3.BucketVersioning:
    """Declare one bucket with all its settings; give the versioning, which replication needs."""
    label = f"weights-{region}"
    made = aws.s3.Bucket(
        label,
        bucket=name,
        force_destroy=False,
        tags=home.tags,
        opts=home.in_region(region, "aws:s3/bucket:Bucket"),
    )
    options = home.in_region(region)
    closed = _private(label, made, options)
    _encrypted(label, made, key, options)
    _lifecycle(label, made, options)
    policy = key.apply(lambda arn: _policy(bucket_arn(name, region), arn))
    # S3 answers a policy with a conflict while public access is being blocked.
    aws.s3.BucketPolicy(
        label, bucket=made.id, policy=policy, opts=home.in_region(region, depends_on=[closed])
    )
    return aws.s3.BucketVersioning(
        label, bucket=made.id, versioning_configuration={"status": "Enabled"}, opts=options
    )


def _private(
    label: str, bucket: aws.s3.Bucket, options: pulumi.ResourceOptions
) -> aws.s3.BucketPublicAccessBlock:
    aws.s3.BucketOwnershipControls(
        label, bucket=bucket.id, rule={"object_ownership": OWNERSHIP}, opts=options
    )
    return aws.s3.BucketPublicAccessBlock(
        label,
        bucket=bucket.id,
        block_public_acls=PRIVATE["BlockPublicAcls"],
        block_public_policy=PRIVATE["BlockPublicPolicy"],
        ignore_public_acls=PRIVATE["IgnorePublicAcls"],
        restrict_public_buckets=PRIVATE["RestrictPublicBuckets"],
        opts=options,
    )


def _encrypted(
    label: str, bucket: aws.s3.Bucket, key: pulumi.Output[str], options: pulumi.ResourceOptions
) -> None:
    default = {"sse_algorithm": ENCRYPTION, "kms_master_key_id": key}
    aws.s3.BucketServerSideEncryptionConfiguration(
        label,
        bucket=bucket.id,
        rules=[{"apply_server_side_encryption_by_default": default, "bucket_key_enabled": True}],
        opts=options,
    )


def _lifecycle(label: str, bucket: aws.s3.Bucket, options: pulumi.ResourceOptions) -> None:
    aws.s3.BucketLifecycleConfiguration(
        label,
        bucket=bucket.id,
        rules=[
            {
                "id": "k3fleet-unfinished-uploads",
                "status": "Enabled",
                "filter": {"prefix": ""},
                "abort_incomplete_multipart_upload": {
                    "days_after_initiation": UNFINISHED_UPLOAD_DAYS
                },
            },
            {
                "id": "k3fleet-old-versions",
                "status": "Enabled",
                "filter": {"prefix": ""},
                "noncurrent_version_expiration": {"noncurrent_days": _OLD_VERSIONS_DAYS},
            },
        ],
        opts=options,
    )


def _policy(bucket: str, key: str) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": denials(bucket, key)})
