"""What all regions share, as it is declared to Pulumi."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pulumi
import pytest
import yaml
from pulumi_mocks import Monitor, Registration, exported, registrations, run_entry

from infra.fleetwide.replication import priority
from infra.outputs import GlobalOutputs, read_outputs

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "infra/global"
DEMO = ROOT / "fleets/demo.yaml"  # with two regions
ACCOUNT = "123456789012"
SECRET_ARN = f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:ecr-pullthroughcache/hub-AbCdEf"
KEYS = {
    "aws:kms/key:Key": {"arn": f"arn:aws:kms:us-west-2:{ACCOUNT}:key/mrk-1"},
    "aws:kms/replicaKey:ReplicaKey": {"arn": f"arn:aws:kms:copy:{ACCOUNT}:key/mrk-1"},
}
GLOBAL: dict[str, Any] = {
    "account": ACCOUNT,
    "region": "us-west-2",
    "weights": {
        "bucket": "k3-weights",
        "copies": [
            {"region": "us-east-1", "bucket": "k3-weights-use1"},
            {"region": "eu-west-1", "bucket": "k3-weights-euw1"},
        ],
    },
    "dns": {
        "zone_id": "Z012",
        "name": "k3.example.com",
        "gateways": [
            {"region": "us-east", "address": "gw-use.example.net", "aws_region": "us-east-1"},
            {"region": "eu-west", "address": "gw-euw.example.net", "aws_region": "eu-west-1"},
        ],
    },
    "registry": {
        "regions": ["us-east-1", "eu-west-1"],
        "pull_through": [
            {"prefix": "k8s", "upstream": "registry.k8s.io"},
            {"prefix": "hub", "upstream": "registry-1.docker.io", "secret": SECRET_ARN},
        ],
    },
}


def run(folder: Path, shared: Mapping[str, Any] | None) -> Monitor:
    """Run the entry file as `pulumi up` does."""
    data = yaml.safe_load(DEMO.read_text())
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump({**data, **({"global": shared} if shared else {})}))
    monitor = Monitor(computed=KEYS)
    run_entry(monitor, ENTRY, "global", {"fleet": str(file)})
    return monitor


@pytest.fixture
def declared(tmp_path: Path) -> dict[str, Registration]:
    return registrations(run(tmp_path, GLOBAL))


def of(declared: Mapping[str, Registration], type_token: str) -> dict[str, Registration]:
    return {item.name: item for item in declared.values() if item.type == type_token}


def test_each_resource_has_its_regions_provider(declared: dict[str, Registration]) -> None:
    """A default provider takes the region, and the account, that the shell happens to have."""
    providers = of(declared, "pulumi:providers:aws")
    assert set(providers) == {"aws-us-west-2", "aws-us-east-1", "aws-eu-west-1"}
    for name, item in providers.items():
        assert item.inputs["region"] == name.removeprefix("aws-")
        assert json.loads(item.inputs["allowedAccountIds"]) == [ACCOUNT]
    for item in declared.values():
        if item.type.startswith("aws:"):
            assert item.provider in providers
            assert "region" not in item.inputs


@pytest.mark.parametrize("region", ["us-west-2", "us-east-1", "eu-west-1"])
def test_every_bucket_is_private_encrypted_and_versioned(
    declared: dict[str, Registration], region: str
) -> None:
    """Weights that leak cannot be called back."""
    name = f"weights-{region}"
    closed = of(declared, "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")[name]
    wanted = {"blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"}
    assert {key for key, value in closed.inputs.items() if value is True} == wanted
    versioning = of(declared, "aws:s3/bucketVersioning:BucketVersioning")[name]
    assert versioning.inputs["versioningConfiguration"] == {"status": "Enabled"}
    encryption = of(
        declared,
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    )[name]
    (rule,) = encryption.inputs["rules"]
    default = rule["applyServerSideEncryptionByDefault"]
    key = "us-west-2" if region == "us-west-2" else "copy"
    assert default["kmsMasterKeyId"] == f"arn:aws:kms:{key}:{ACCOUNT}:key/mrk-1"
    assert closed.provider == versioning.provider == encryption.provider == f"aws-{region}"


def test_what_cannot_be_made_again_is_kept(declared: dict[str, Registration]) -> None:
    """1.4 TB, and the key without which they are noise."""
    kept = {f"{item.type}::{item.name}" for item in declared.values() if item.protect}
    assert kept == {
        "aws:kms/key:Key::weights-us-west-2",
        "aws:kms/replicaKey:ReplicaKey::weights-us-east-1",
        "aws:kms/replicaKey:ReplicaKey::weights-eu-west-1",
        *(f"aws:s3/bucket:Bucket::weights-{r}" for r in ("us-west-2", "us-east-1", "eu-west-1")),
    }
    assert all(item.retain for item in declared.values() if item.protect)
    for item in of(declared, "aws:s3/bucket:Bucket").values():
        assert item.inputs["forceDestroy"] is False


def test_an_upload_that_nobody_completes_is_removed(declared: dict[str, Registration]) -> None:
    """Its parts are paid for, and shown nowhere."""
    for item in of(
        declared, "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    ).values():
        days = [
            rule["abortIncompleteMultipartUpload"]["daysAfterInitiation"]
            for rule in item.inputs["rules"]
            if "abortIncompleteMultipartUpload" in rule
        ]
        assert days == [7]


def test_a_copy_is_encrypted_with_the_key_of_its_place(declared: dict[str, Registration]) -> None:
    """S3 reports success with a key of another region, and copies nothing."""
    (item,) = of(declared, "aws:s3/bucketReplicationConfig:BucketReplicationConfig").values()
    rules = {rule["id"]: rule for rule in item.inputs["rules"]}
    assert set(rules) == {"to-us-east-1", "to-eu-west-1"}
    for rule in rules.values():
        assert rule["sourceSelectionCriteria"]["sseKmsEncryptedObjects"]["status"] == "Enabled"
        key = rule["destination"]["encryptionConfiguration"]["replicaKmsKeyId"]
        assert key == KEYS["aws:kms/replicaKey:ReplicaKey"]["arn"]
        assert rule["deleteMarkerReplication"]["status"] == "Disabled"
    assert {"weights-us-west-2", "weights-us-east-1", "weights-eu-west-1"} <= item.needs


def test_the_copying_role_may_do_nothing_else(declared: dict[str, Registration]) -> None:
    """It reads the source and writes copies; it deletes nothing and opens no other key."""
    (role,) = of(declared, "aws:iam/role:Role").values()
    (trust,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert trust["Principal"] == {"Service": "s3.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnLike": {"aws:SourceArn": "arn:aws:s3:::k3-weights"},
    }
    (rights,) = of(declared, "aws:iam/rolePolicy:RolePolicy").values()
    statements = json.loads(rights.inputs["policy"])["Statement"]
    resources = {resource for item in statements for resource in item["Resource"]}
    assert resources == {
        "arn:aws:s3:::k3-weights",
        "arn:aws:s3:::k3-weights/*",
        "arn:aws:s3:::k3-weights-use1/*",
        "arn:aws:s3:::k3-weights-euw1/*",
        *(value["arn"] for value in KEYS.values()),
    }
    actions = {action for item in statements for action in item["Action"]}
    assert not any("*" in action or "Delete" in action or "Put" in action for action in actions)
    for item in statements:
        if any(action.startswith("kms:") for action in item["Action"]):
            assert "kms:ViaService" in item["Condition"]["StringLike"]


def test_a_region_without_a_healthy_gateway_gets_nobody(declared: dict[str, Registration]) -> None:
    """Each record hangs on its own check, at its own gateway."""
    checks = of(declared, "aws:route53/healthCheck:HealthCheck")
    records = of(declared, "aws:route53/record:Record")
    assert set(checks) == set(records) == {"gateway-us-east", "gateway-eu-west"}
    for name, record in records.items():
        assert record.inputs["healthCheckId"] == f"{name}-id"
        assert record.inputs["type"] == "CNAME"
        assert record.inputs["setIdentifier"] == name.removeprefix("gateway-")
        assert checks[name].inputs["fqdn"] == record.inputs["records"][0]
        assert checks[name].inputs["resourcePath"] == "/healthz"
    policies = records["gateway-eu-west"].inputs["latencyRoutingPolicies"]
    assert policies == [{"region": "eu-west-1"}]


def test_by_ip_address_the_checkers_ask_for_the_clients_name(tmp_path: Path) -> None:
    """The gateway's certificate and its routes are for that name."""
    gateways = [{"region": "us-east", "address": "8.8.8.8", "weight": 7}]
    shared = {**GLOBAL, "dns": {**GLOBAL["dns"], "routing": "weighted", "gateways": gateways}}
    declared = registrations(run(tmp_path, shared))
    (check,) = of(declared, "aws:route53/healthCheck:HealthCheck").values()
    assert (check.inputs["ipAddress"], check.inputs["fqdn"]) == ("8.8.8.8", "k3.example.com")
    (record,) = of(declared, "aws:route53/record:Record").values()
    assert record.inputs["type"] == "A"
    assert record.inputs["weightedRoutingPolicies"] == [{"weight": 7}]
    assert "latencyRoutingPolicies" not in record.inputs


def test_caches_name_their_credentials_and_never_hold_them(
    declared: dict[str, Registration],
) -> None:
    """ECR reads the secret by its ARN, in its own region."""
    rules = of(declared, "aws:ecr/pullThroughCacheRule:PullThroughCacheRule")
    assert set(rules) == {"k8s-us-east-1", "k8s-eu-west-1", "hub-us-east-1", "hub-eu-west-1"}
    assert rules["hub-eu-west-1"].inputs["credentialArn"] == SECRET_ARN.replace(
        "us-west-2", "eu-west-1"
    )
    assert "credentialArn" not in rules["k8s-us-east-1"].inputs


def test_the_order_in_the_file_changes_nothing(tmp_path: Path) -> None:
    """Names come from regions, and so do the priorities of the rules."""
    turned = json.loads(json.dumps(GLOBAL))
    for section, key in (
        ("weights", "copies"),
        ("dns", "gateways"),
        ("registry", "regions"),
        ("registry", "pull_through"),
    ):
        turned[section][key].reverse()

    def plain(found: dict[str, Registration]) -> dict[str, Any]:
        listed = ("rules", "policy")  # in the order of the file; compared below
        return {
            name: (item.provider, {k: v for k, v in item.inputs.items() if k not in listed})
            for name, item in found.items()
        }

    def priorities(found: dict[str, Registration]) -> dict[str, int]:
        kind = "aws:s3/bucketReplicationConfig:BucketReplicationConfig"
        rules = of(found, kind)["weights-us-west-2"].inputs["rules"]
        return {rule["id"]: rule["priority"] for rule in rules}

    first, second = (registrations(run(tmp_path, shared)) for shared in (GLOBAL, turned))
    assert plain(first) == plain(second)
    assert priorities(first) == priorities(second)


def test_no_two_regions_of_amazon_share_a_priority() -> None:
    """S3 refuses rules with the same one."""
    session = botocore.session.get_session()
    regions = [
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("s3", partition)
    ]
    assert len({priority(region) for region in regions}) == len(regions) > 28


def test_what_it_says_to_the_regions_is_what_they_read(tmp_path: Path) -> None:
    """Typed on both sides, and nothing secret in it."""
    run(tmp_path, GLOBAL)
    read = read_outputs("global", "global", exported())
    assert read == GlobalOutputs(
        fleet="demo",
        weights_bucket="k3-weights",
        weights_buckets={
            "us-west-2": "k3-weights",
            "us-east-1": "k3-weights-use1",
            "eu-west-1": "k3-weights-euw1",
        },
        weights_key=KEYS["aws:kms/key:Key"]["arn"],
        endpoint="k3.example.com",
        registries={
            region: f"{ACCOUNT}.dkr.ecr.{region}.amazonaws.com"
            for region in ("us-east-1", "eu-west-1")
        },
    )


def test_what_is_not_asked_for_is_not_made(tmp_path: Path) -> None:
    """A team with a DNS of its own gets no records."""
    shared = {key: GLOBAL[key] for key in ("account", "region")}
    assert registrations(run(tmp_path, shared)) == {}
    assert exported() == {"fleet": "demo"}


def test_a_source_without_copies_has_no_role(tmp_path: Path) -> None:
    """Nobody may copy where nothing is to be copied."""
    shared = {**GLOBAL, "weights": {"bucket": "k3-weights"}}
    declared = registrations(run(tmp_path, shared))
    assert of(declared, "aws:iam/role:Role") == {}


def test_without_a_global_section_it_says_so(tmp_path: Path) -> None:
    """Not a stack with nothing in it."""
    with pytest.raises(pulumi.RunError, match=r"global: not set.*docs/global.md"):
        run(tmp_path, None)
