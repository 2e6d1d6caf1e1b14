"""Define the `weights` section of a fleet file: where weights come from, and where they go.

Buckets only; credentials are never written down. boto3 finds them by itself, and `profile`
names a set of them where a store needs others than the rest.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from fleet.schema import DnsLabel, FileModel, Text, found_text, refuse
from fleet.weights.names import folder_name_fault

# Amazon's rules for general purpose buckets, which other stores keep to as well.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PROFILE = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
# IAM's, and those of stores that speak STS, which have no account.
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::([0-9]{12})?:role/[A-Za-z0-9_+=,.@/-]{1,512}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def _bucket(text: str) -> str:
    if not _BUCKET.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no name of a bucket",
            "Use 3 to 63 lower-case letters, digits, dots and dashes; no s3://",
        )
    return text


def _prefix(text: str) -> str:
    for part in text.split("/") if text else ():
        if fault := folder_name_fault(part):
            raise refuse(
                f"{found_text(text)}: {fault}", "Write it as models/k3, without / at either end"
            )
    return text


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        raise refuse("is no address of a store", "Write it as https://object.example.com") from None
    if "@" in text:
        raise refuse("the address holds a user or a password", "Leave them to boto3's credentials")
    if parts.query or parts.fragment:  # not shown: a signed address is a key
        raise refuse("the address has a query", "Write it as https://object.example.com")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refuse(
            f"{found_text(text)} is no address of a store",
            "Write it as https://object.example.com",
        )
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise refuse(
            f"{found_text(text)} is not encrypted", "Use https://; http:// only on this machine"
        )
    return text.rstrip("/")


def _profile(text: str) -> str:
    if not _PROFILE.fullmatch(text):
        raise refuse(f"{found_text(text)} is no name of a profile", "Name one of ~/.aws/config")
    return text


def _role(text: str) -> str:
    if not _ROLE.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no role",
            "Write it as arn:aws:iam::123456789012:role/weights-read",
        )
    return text


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no digest",
            "Copy the 64 digits that `k3fleet weights plan` shows",
        )
    return text


class StoreSpec(FileModel):
    """A folder of a bucket of an S3-compatible store."""

    bucket: Annotated[str, AfterValidator(_bucket)] = Field(description="the bucket's name")
    prefix: Annotated[str, AfterValidator(_prefix)] = ""  # folder in it, for example models
    region: Text = "us-east-1"  # of the bucket, as the store calls it
    # None: Amazon's. Others give an address of their own.
    endpoint_url: Annotated[str, AfterValidator(_endpoint)] | None = None
    profile: Annotated[str, AfterValidator(_profile)] | None = None  # of ~/.aws/config
    # How the bucket is named in a request: in the host, or in the path. auto: boto3 decides.
    addressing: Literal["auto", "virtual", "path"] = "auto"
    # What the store checks each part by, and keeps of the whole. Older stores know only md5.
    checksum: Literal["crc64nvme", "md5"] = "crc64nvme"

    def shares_copies_with(self, other: StoreSpec) -> bool:
        """Say whether one store, asked by one account, holds both: then it copies by itself."""
        return (self.endpoint_url, self.profile) == (other.endpoint_url, other.profile)


class NodeAccessSpec(FileModel):
    """How nodes read their region's bucket.

    A Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY that may read and no more; or a role
    that is given to the web identity of the account `weights-stage` (IRSA); without either, what
    EKS Pod Identity gives that account, or else no name at all.
    """

    secret: DnsLabel | None = None
    role: Annotated[str, AfterValidator(_role)] | None = None
    # Whether a node may ask the hub when its bucket cannot give it the weights.
    hub_fallback: bool = False

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if self.secret and self.role:
            raise refuse("names a secret and a role", "Keep one: the secret would always win")
        return self


class WeightsSpec(FileModel):
    """Where weights come from and where each region keeps them."""

    source: StoreSpec = Field(description="the bucket that holds the weights, with its prefix")
    regions: dict[str, StoreSpec] = Field(
        min_length=1, description="the bucket of each region, by the region's name"
    )
    # Revision -> digest of its manifest: what `weights plan` showed when somebody looked at it.
    manifests: dict[str, Annotated[str, AfterValidator(_digest)]] = Field(default_factory=dict)
    nodes: NodeAccessSpec | None = None  # None: nodes ask the hub, as without this section

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse two regions in one folder, or a region in the source's: locks and gc would mix."""
        taken: dict[tuple[str | None, str, str], str] = {}
        for name, store in {"source": self.source, **self.regions}.items():
            place = (store.endpoint_url, store.bucket, store.prefix)
            if place in taken:
                raise refuse(
                    f"{taken[place]} and {name} are the same folder of {store.bucket}",
                    "Give each a bucket or a prefix of its own",
                )
            taken[place] = name
        return self
