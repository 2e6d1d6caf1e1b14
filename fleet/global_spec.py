"""Describe what all regions of a fleet share, and one AWS account holds.

The weights' source bucket and its regional copies, the key that encrypts them,
the name that clients use with its health checks, and the registry caches. What
is not asked for is not made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fleet.schema import Count, DnsLabel, FileModel, Positive, Text, found_text, refuse, suggestion
from fleet.state_address import AWS_REGION, BUCKET_NAME

_HOST = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_ZONE_ID = re.compile(r"Z[0-9A-Z]{1,31}")
_PATH = re.compile(r"/[A-Za-z0-9._~/-]{0,254}")
# Patterns and lengths of the two below: botocore's ECR model, CreatePullThroughCacheRule.
_ECR_PREFIX = re.compile(r"(?=.{2,30}$)[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_SECRET = re.compile(
    r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:([0-9]{12}):secret:ecr-pullthroughcache/[\w/+=.@-]+"
)
# What ECR can cache (the same model) -> whether it asks for credentials. nvcr.io is not among
# them: copy Dynamo's images into a registry of your own.
UPSTREAMS: Mapping[str, bool] = {
    "public.ecr.aws": False,
    "quay.io": False,
    "registry.k8s.io": False,
    "ghcr.io": True,
    "registry-1.docker.io": True,
    "registry.gitlab.com": True,
}
MAX_GATEWAYS = 100  # records of one name; Route 53's own limit
MAX_COPIES = 28  # AWS has no more regions that an account can use


def _aws_region(text: str) -> str:
    if not AWS_REGION.fullmatch(text):
        raise refuse(f"{found_text(text)} is no AWS region", "Write it as us-west-2")
    return text


def _bucket(text: str) -> str:
    if not BUCKET_NAME.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no name of a bucket",
            "Use 3 to 63 lower-case letters, digits and dashes",
        )
    return text


def _account(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        raise refuse("expected text, found a number", "Write the account in quotes: 12 digits")
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{12}", value):
        raise refuse(f"{found_text(value)} is no AWS account", "Write its 12 digits, in quotes")
    return value


def _zone_id(text: str) -> str:
    if not _ZONE_ID.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no id of a hosted zone", "Write it as Z0123456789ABCDEFGHIJ"
        )
    return text


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise refuse(f"{found_text(text)} is no host name", "Write it as k3.example.com")
    return text


def _address(text: str) -> str:
    if is_ip(text):
        found = ip_address(text)
        if not found.is_global:  # Route 53's checkers are outside
            raise refuse(
                f"{found_text(text)} is not reached from outside", "Give a public address or name"
            )
        return text
    return _host(text)


def _path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise refuse(f"{found_text(text)} is no path of a URL", "Write it as /healthz")
    return text


def _prefix(text: str) -> str:
    if not _ECR_PREFIX.fullmatch(text):
        raise refuse(
            f"{found_text(text)} is no prefix of a repository",
            "Use 2 to 30 lower-case letters and digits",
        )
    return text


def _upstream(text: str) -> str:
    if text == "nvcr.io":
        raise refuse(
            "ECR cannot cache nvcr.io", "Copy its images into a registry of yours, by digest"
        )
    if text not in UPSTREAMS:
        raise refuse(f"{found_text(text)} is nothing that ECR caches", suggestion(text, UPSTREAMS))
    return text


def _secret(text: str) -> str:
    if not _SECRET.fullmatch(text):  # not shown: it may be the secret itself
        raise refuse(
            "the value is no ARN of a Secrets Manager secret for ECR",
            "Write arn:aws:secretsmanager:REGION:ACCOUNT:secret:ecr-pullthroughcache/NAME",
        )
    return text


def is_ip(text: str) -> bool:
    """Say whether an address is one of IP, not a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


AwsRegion = Annotated[str, AfterValidator(_aws_region)]
BucketName = Annotated[str, AfterValidator(_bucket)]
HostName = Annotated[str, AfterValidator(_host)]
Path = Annotated[str, AfterValidator(_path)]
Routing = Literal["latency", "weighted"]


class WeightsCopySpec(FileModel):
    """A bucket that gets what is put into the source."""

    region: AwsRegion = Field(description="an AWS region, for example us-east-1")
    bucket: BucketName = Field(description="a name that nobody on AWS has")


class WeightsBucketsSpec(FileModel):
    """The bucket into which weights are put, and its copies where racks are."""

    bucket: BucketName = Field(description="a name that nobody on AWS has")
    copies: Annotated[tuple[WeightsCopySpec, ...], Field(max_length=MAX_COPIES)] = ()


class HealthCheckSpec(FileModel):
    """How Route 53 asks a gateway whether it works."""

    path: Path = "/healthz"
    port: Annotated[Positive, Field(le=65_535)] = 443
    protocol: Literal["https", "http"] = "https"
    interval_s: Annotated[Literal[10, 30], Field(alias="interval")] = 10  # Route 53 has these two
    failures: Annotated[Positive, Field(le=10)] = 3


class GatewayAddressSpec(FileModel):
    """Where the gateway of one region is reached."""

    region: Text = Field(description="a region of this file")
    address: Annotated[Text, AfterValidator(_address)] = Field(
        description="host name or IP address of its load balancer"
    )
    # For latency: the AWS region nearest to it, whatever cloud it is in.
    aws_region: AwsRegion | None = None
    # For weighted: its share of the sum of all weights; 0 takes it out.
    weight: Annotated[Count, Field(le=255)] = 100


class DnsSpec(FileModel):
    """The name that clients use, in a hosted zone that exists."""

    zone_id: Annotated[Text, AfterValidator(_zone_id)] = Field(description="id of the hosted zone")
    name: HostName = Field(description="the name that clients use, for example k3.example.com")
    routing: Routing = "latency"
    ttl_s: Annotated[Positive, Field(alias="ttl", le=3600)] = 60
    health: HealthCheckSpec = HealthCheckSpec()
    gateways: Annotated[tuple[GatewayAddressSpec, ...], Field(max_length=MAX_GATEWAYS)] = Field(
        min_length=1, description="a list of gateways with region and address"
    )

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        """Refuse what Route 53 would refuse record by record, in the middle of an update."""
        _once("region", [gateway.region for gateway in self.gateways])
        names = [gateway for gateway in self.gateways if not is_ip(gateway.address)]
        if names and len(names) < len(self.gateways):
            raise refuse(
                "some gateways have a name and others an IP address, one DNS name has one kind",
                "Give the same kind for all of them",
            )
        without = [item.region for item in self.gateways if item.aws_region is None]
        if self.routing == "latency" and without:
            raise refuse(
                f"aws_region is missing for {', '.join(without)}, and latency is measured from it",
                "Add aws_region, the AWS region nearest to the gateway, or use routing: weighted",
            )
        if self.routing == "weighted" and not any(item.weight for item in self.gateways):
            raise refuse("all weights are 0", "Give one gateway a weight")
        return self


class PullThroughSpec(FileModel):
    """A registry that ECR keeps a cache of."""

    prefix: Annotated[Text, AfterValidator(_prefix)] = Field(
        description="what its repositories are called in ECR, for example docker-hub"
    )
    upstream: Annotated[Text, AfterValidator(_upstream)] = Field(
        description="the registry's host, for example registry.k8s.io"
    )
    # Name of the secret, never what is in it. In another AWS region its replica there is used.
    secret: Annotated[Text, AfterValidator(_secret)] | None = None

    @model_validator(mode="after")
    def _with_credentials(self) -> Self:
        if UPSTREAMS[self.upstream] and self.secret is None:
            raise refuse(
                f"ECR asks for credentials of {self.upstream}",
                "Add secret, the ARN of a Secrets Manager secret named ecr-pullthroughcache/NAME",
            )
        return self


class RegistrySpec(FileModel):
    """Registries that ECR keeps a cache of, in each AWS region where nodes pull."""

    regions: Annotated[tuple[AwsRegion, ...], Field(min_length=1)] = Field(
        description="a list of AWS regions"
    )
    pull_through: Annotated[tuple[PullThroughSpec, ...], Field(max_length=50)] = Field(
        min_length=1, description="a list of registries with prefix and upstream"
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        _once("AWS region", self.regions)
        _once("prefix", [rule.prefix for rule in self.pull_through])
        return self


class GlobalSpec(FileModel):
    """What all regions share."""

    account: Annotated[str, BeforeValidator(_account)] = Field(
        description="the AWS account's 12 digits, in quotes"
    )
    region: AwsRegion = Field(description="the AWS region of the weights' source and its key")
    # Names keys and roles; two fleets in one account need two.
    name: DnsLabel | None = None  # None: the fleet's
    weights: WeightsBucketsSpec | None = None
    dns: DnsSpec | None = None
    registry: RegistrySpec | None = None

    @model_validator(mode="after")
    def _one_bucket_each(self) -> Self:
        """Refuse a source that is copied onto itself, and secrets of another account."""
        if self.weights:
            copies = self.weights.copies
            _once("AWS region", [self.region, *(copy.region for copy in copies)])
            _once("bucket", [self.weights.bucket, *(copy.bucket for copy in copies)])
        for rule in self.registry.pull_through if self.registry else ():
            if rule.secret and rule.secret.split(":")[4] != self.account:
                raise refuse(
                    f"the secret of {rule.prefix} is in another account than {self.account}",
                    "ECR reads secrets of its own account only; make one there",
                )
        return self


def _once(noun: str, values: Iterable[str]) -> None:
    found = list(values)
    twice = sorted({value for value in found if found.count(value) > 1})
    if twice:
        raise refuse(f"{noun} {', '.join(twice)} is used twice", "Use each once")
