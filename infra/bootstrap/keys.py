"""Find and make the key that encrypts the state and the secrets in it."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import ClientError

from fleet.errors import ConfigError, StateError
from infra.bootstrap.calls import Aws, Client, code
from infra.bootstrap.home import KEY_TAG, OURS, OWNER, Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of KMS that is fit for this."""

    arn: str
    multi_region: bool
    regions: frozenset[str]  # where it, or a replica of it, is
    ours: bool
    has_alias: bool  # the one that the fleet file names
    rotates: bool

    def arn_in(self, region: str) -> str:
        """Give the ARN of the key or of its replica: all but the region is the same."""
        parts = self.arn.split(":")
        return ":".join([*parts[:3], region, *parts[4:]])


def find_key(aws: Aws, home: Home) -> Key | None:
    """Find the key; raise where there is one that cannot be used."""
    kms = aws.client("kms", home.key_region)
    try:
        found = kms.describe_key(KeyId=home.key)["KeyMetadata"]
        has_alias = True
    except ClientError as error:
        if code(error) != "NotFoundException":
            raise
        if not _is_alias(home):
            raise ConfigError(
                f"{home.key}: there is no such key in {home.key_region}. Make it, or write "
                "awskms://alias/NAME in state.secrets_provider: then it is made for you."
            ) from error
        arn = _interrupted(aws, home)
        if arn is None:
            return None
        found = kms.describe_key(KeyId=arn)["KeyMetadata"]
        has_alias = False
    _check_usable(home, found)
    multi = found.get("MultiRegionConfiguration") or {}
    replicas = {str(item["Region"]) for item in multi.get("ReplicaKeys", [])}
    primary = multi.get("PrimaryKey", {}).get("Region")
    ours = _is_ours(kms, found["Arn"])
    return Key(
        arn=str(found["Arn"]),
        multi_region=bool(found.get("MultiRegion")),
        regions=frozenset({home.key_region, *replicas, *([primary] if primary else [])}),
        ours=ours,
        has_alias=has_alias,
        # Another team's key may turn by hand, and may not be asked.
        rotates=not ours or kms.get_key_rotation_status(KeyId=found["Arn"])["KeyRotationEnabled"],
    )


def make_key(aws: Aws, home: Home) -> Key:
    """Make a key that can be replicated later; its default policy leaves it to IAM."""
    tags = {**home.tags, KEY_TAG: home.key}
    kms = aws.client("kms", home.key_region)
    made = kms.create_key(
        Description=f"State of Pulumi, k3fleet {home.fleet}",
        KeyUsage="ENCRYPT_DECRYPT",
        KeySpec="SYMMETRIC_DEFAULT",
        MultiRegion=True,
        Tags=[{"TagKey": key, "TagValue": value} for key, value in tags.items()],
    )["KeyMetadata"]
    return Key(
        arn=str(made["Arn"]),
        multi_region=True,
        regions=frozenset({home.key_region}),
        ours=True,
        has_alias=False,
        rotates=False,
    )


def replicate(aws: Aws, home: Home, key: Key) -> None:
    """Make a replica where the bucket is."""
    tags = [{"TagKey": name, "TagValue": value} for name, value in home.tags.items()]
    kms = aws.client("kms", home.key_region)
    kms.replicate_key(KeyId=key.arn.rpartition("/")[2], ReplicaRegion=home.bucket_region, Tags=tags)


def _is_alias(home: Home) -> bool:
    return home.key.startswith("alias/")


def _interrupted(aws: Aws, home: Home) -> str | None:
    """Find a key that an earlier run made, and gave no alias."""
    if not _is_alias(home):
        return None
    tagging = aws.client("resourcegroupstaggingapi", home.key_region)
    pages = tagging.get_paginator("get_resources").paginate(
        ResourceTypeFilters=["kms:key"],
        TagFilters=[
            {"Key": KEY_TAG, "Values": [home.key]},
            {"Key": OURS, "Values": [OWNER]},
        ],
    )
    arns = sorted(item["ResourceARN"] for page in pages for item in page["ResourceTagMappingList"])
    kms = aws.client("kms", home.key_region)
    for arn in arns:
        if kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"] == "Enabled":
            return str(arn)
    return None


def _is_ours(kms: Client, arn: str) -> bool:
    pages = kms.get_paginator("list_resource_tags").paginate(KeyId=arn)
    return any(
        tag["TagKey"] == OURS and tag["TagValue"] == OWNER for page in pages for tag in page["Tags"]
    )


def _check_usable(home: Home, found: dict[str, object]) -> None:
    state = found["KeyState"]
    if state == "PendingDeletion":
        raise StateError(
            f"{home.key}: the key will be deleted, and with it everything it encrypts. "
            "Keep it with `aws kms cancel-key-deletion` and `aws kms enable-key`, then run again."
        )
    if state not in ("Enabled", "Creating", "Updating"):
        raise StateError(
            f"{home.key}: the key is {state}. Enable it with `aws kms enable-key`, then run again."
        )
    if found.get("KeyUsage") != "ENCRYPT_DECRYPT" or found.get("KeySpec") != "SYMMETRIC_DEFAULT":
        raise ConfigError(
            f"{home.key}: the key is {found.get('KeySpec')} for {found.get('KeyUsage')}, and a "
            "state needs a symmetric one for encryption. Name another in state.secrets_provider."
        )
