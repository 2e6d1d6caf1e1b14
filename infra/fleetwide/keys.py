"""Declare the key of the weights, and its replica in each region that holds a copy."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pulumi
import pulumi_aws as aws

from infra.aws_bucket import partition
from infra.fleetwide.home import Home

_DELETION_WINDOW_DAYS = 30  # the longest that KMS gives to find out


def declare_keys(home: Home, copies: Iterable[str]) -> dict[str, pulumi.Output[str]]:
    """Give the ARN of the key by AWS region; all have one id, so a policy can name them all."""
    region = home.spec.region
    primary = aws.kms.Key(
        f"weights-{region}",
        description=f"Weights of k3fleet {home.fleet}",
        multi_region=True,
        enable_key_rotation=True,
        deletion_window_in_days=_DELETION_WINDOW_DAYS,
        policy=_policy(home),
        tags=home.tags,
        opts=home.in_region(region, "aws:kms/key:Key"),
    )
    keys: dict[str, pulumi.Output[str]] = {region: primary.arn}
    for place in copies:
        replica = aws.kms.ReplicaKey(
            f"weights-{place}",
            description=f"Weights of k3fleet {home.fleet}",
            primary_key_arn=primary.arn,
            deletion_window_in_days=_DELETION_WINDOW_DAYS,
            policy=_policy(home),
            tags=home.tags,
            opts=home.in_region(place, "aws:kms/replicaKey:ReplicaKey"),
        )
        keys[place] = replica.arn
    for place, arn in keys.items():
        aws.kms.Alias(
            f"weights-{place}",
            name=f"alias/{home.name}-weights",
            target_key_id=arn,
            opts=home.in_region(place),
        )
    return keys


def _policy(home: Home) -> str:
    """Leave the key to the account's IAM, as the policy does that AWS gives by itself."""
    root = f"arn:{partition(home.spec.region)}:iam::{home.spec.account}:root"
    statement = {
        "Sid": "LeftToIam",
        "Effect": "Allow",
        "Principal": {"AWS": root},
        "Action": "kms:*",
        "Resource": "*",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
