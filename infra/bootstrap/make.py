"""Do what the survey found missing. Nothing is ever deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from botocore.exceptions import ClientError

from fleet.errors import StateError
from infra.aws_bucket import OWNERSHIP
from infra.bootstrap.aspects import ASPECTS, place, read
from infra.bootstrap.calls import Aws, code, explained
from infra.bootstrap.home import Home
from infra.bootstrap.keys import Key, find_key, make_key, replicate
from infra.bootstrap.survey import ALIAS, BUCKET, KEY, REPLICA, ROTATION, Change, not_ours

_REPLICA_ASKED = 30  # times; a replica takes seconds
_REPLICA_PAUSE_S = 2.0


@dataclass(slots=True, kw_only=True)
class Maker:
    """Carries changes out, one after the other; a later run goes on where this one ends."""

    aws: Aws
    home: Home
    key: Key | None
    say: Callable[[str], None]
    sleep: Callable[[float], None]

    def make(self, changes: Iterable[Change]) -> None:
        """Carry changes out in the order of the survey."""
        steps: dict[str, Callable[[], None]] = {
            KEY: self._key,
            ROTATION: self._rotation,
            ALIAS: self._alias,
            REPLICA: self._replica,
            BUCKET: self._bucket,
        }
        for change in changes:
            self.say(f"{change.where}: {change.what}")
            with explained(change.where):
                if change.name in steps:
                    steps[change.name]()
                else:
                    self._setting(change.name)

    def _key(self) -> None:
        self.key = make_key(self.aws, self.home)

    def _rotation(self) -> None:
        kms = self.aws.client("kms", self.home.key_region)
        kms.enable_key_rotation(KeyId=self._made().arn)

    def _alias(self) -> None:
        kms = self.aws.client("kms", self.home.key_region)
        kms.create_alias(AliasName=self.home.key, TargetKeyId=self._made().arn)

    def _replica(self) -> None:
        key = self._made()
        replicate(self.aws, self.home, key)
        kms = self.aws.client("kms", self.home.bucket_region)
        for _ in range(_REPLICA_ASKED):
            found = kms.describe_key(KeyId=key.arn_in(self.home.bucket_region))["KeyMetadata"]
            if found["KeyState"] == "Enabled":
                return
            self.sleep(_REPLICA_PAUSE_S)
        raise StateError(
            f"{self.home.key} in {self.home.bucket_region}: the replica is not ready yet. "
            "Run again in a few minutes."
        )

    def _bucket(self) -> None:
        """Make the bucket with its tags on it: an interrupted run then knows it as ours."""
        tags = [{"Key": key, "Value": value} for key, value in self.home.tags.items()]
        configuration: dict[str, object] = {"Tags": tags}
        if self.home.bucket_region != "us-east-1":  # which S3 does not want to hear
            configuration["LocationConstraint"] = self.home.bucket_region
        s3 = self.aws.client("s3", self.home.bucket_region)
        try:
            s3.create_bucket(
                Bucket=self.home.bucket,
                CreateBucketConfiguration=configuration,
                ObjectOwnership=OWNERSHIP,
            )
        except ClientError as error:
            if code(error) in ("BucketAlreadyExists", "AccessDenied"):
                raise not_ours(self.home) from error
            raise

    def _setting(self, name: str) -> None:
        aspect = next(item for item in ASPECTS if item.name == name)
        s3 = self.aws.client("s3", self.home.bucket_region)
        arn = self._made().arn_in(self.home.bucket_region)
        value = aspect.wanted(self.home, arn, read(s3, self.home, aspect))
        aspect.put(s3, place(self.home), value)

    def _made(self) -> Key:
        if self.key is None:
            self.key = find_key(self.aws, self.home)
        if self.key is None:
            raise StateError(f"{self.home.key}: the key is gone. Run again.")
        return self.key
