"""Say where a fleet's state is to live, before anything is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.spec import FleetSpec
from fleet.state_address import Backend

OURS = "k3fleet:managed-by"
OWNER = "k3fleet"
KEY_TAG = "k3fleet:key"  # finds a key whose alias was never made, because a run was interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A bucket and a key, as the fleet file names them, in the caller's account."""

    fleet: str
    account: str
    partition: str  # aws, aws-cn, aws-us-gov
    bucket: str
    bucket_region: str
    key: str  # alias/NAME; or the id or ARN of a key that somebody else made
    key_region: str
    key_is_for_secrets: bool  # and not for the bucket alone

    @property
    def bucket_arn(self) -> str:
        """ARN of the bucket."""
        return f"arn:{self.partition}:s3:::{self.bucket}"

    @property
    def tags(self) -> dict[str, str]:
        """Tags of all that is made here."""
        return {OURS: OWNER, "k3fleet:fleet": self.fleet, "k3fleet:purpose": "state"}


def home(spec: FleetSpec, backend: Backend, *, account: str, partition: str) -> Home:
    """Choose bucket and key; with a passphrase for secrets, the bucket gets a key of its own."""
    provider = spec.state.key
    aws = provider.kind == "awskms"
    return Home(
        fleet=spec.name,
        account=account,
        partition=partition,
        bucket=backend.bucket,
        bucket_region=backend.region,
        key=provider.key if aws else f"alias/{backend.bucket}",
        key_region=provider.region if aws else backend.region,
        key_is_for_secrets=aws,
    )
