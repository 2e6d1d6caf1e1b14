"""What all regions share, as it is written down."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fleet.global_spec import DnsSpec, GlobalSpec, PullThroughSpec

HOME = {"account": "123456789012", "region": "us-west-2"}
ARN = "arn:aws:secretsmanager:us-west-2:{}:secret:ecr-pullthroughcache/hub-AbCdEf"


def gateway(region: str, **given: object) -> dict[str, object]:
    return {"region": region, "address": f"{region}.example.net", **given}


def dns(*gateways: dict[str, object], **given: object) -> dict[str, Any]:
    return {"zone_id": "Z012", "name": "k3.example.com", "gateways": gateways, **given}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (dns(gateway("a")), "aws_region is missing for a, and latency is measured from it"),
        (dns(gateway("a", weight=0), routing="weighted"), "all weights are 0"),
        (dns(gateway("a"), gateway("a"), routing="weighted"), "region a is used twice"),
        (
            dns(gateway("a"), gateway("b", address="8.8.8.8"), routing="weighted"),
            "some gateways have a name and others an IP address, one DNS name has one kind",
        ),
    ],
)
def test_records_that_route_53_would_refuse_are_refused(given: dict[str, Any], what: str) -> None:
    """It would do so record by record, with half of them changed."""
    with pytest.raises(ValidationError) as caught:
        DnsSpec.model_validate(given)
    assert caught.value.errors()[0]["msg"] == what


@pytest.mark.parametrize("address", ["10.1.2.3", "169.254.169.254", "::1", "GW.example.net", "gw"])
def test_a_gateway_is_reached_from_outside(address: str) -> None:
    """Route 53's checkers are, and so are clients."""
    with pytest.raises(ValidationError):
        DnsSpec.model_validate(dns(gateway("a", address=address), routing="weighted"))


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        (
            {"bucket": "k3-w", "copies": [{"region": "us-west-2", "bucket": "k3-x"}]},
            "AWS region us-west-2 is used twice",
        ),
        (
            {"bucket": "k3-w", "copies": [{"region": "us-east-1", "bucket": "k3-w"}]},
            "bucket k3-w is used twice",
        ),
    ],
)
def test_a_source_is_not_its_own_copy(weights: dict[str, Any], what: str) -> None:
    """Names of resources come from regions, and names of buckets are unique on all of AWS."""
    with pytest.raises(ValidationError) as caught:
        GlobalSpec.model_validate({**HOME, "weights": weights})
    assert caught.value.errors()[0]["msg"] == what


def test_a_secret_of_another_account_is_refused() -> None:
    """ECR reads those of its own account only."""
    rule = {"prefix": "hub", "upstream": "registry-1.docker.io"}
    for account, valid in (("123456789012", True), ("210987654321", False)):
        registry = {
            "regions": ["us-west-2"],
            "pull_through": [{**rule, "secret": ARN.format(account)}],
        }
        if valid:
            GlobalSpec.model_validate({**HOME, "registry": registry})
        else:
            with pytest.raises(ValidationError, match="in another account than 123456789012"):
                GlobalSpec.model_validate({**HOME, "registry": registry})


def test_what_is_given_instead_of_a_secrets_name_is_not_shown() -> None:
    """It may be the password itself, and the message goes into logs."""
    given = {"prefix": "hub", "upstream": "ghcr.io", "secret": "hunter2-token"}
    with pytest.raises(ValidationError) as caught:
        PullThroughSpec.model_validate(given)
    assert "hunter2" not in caught.value.errors()[0]["msg"]
