"""What holds weights or state is encrypted at rest, where a cloud lets one leave it out."""

from __future__ import annotations

from collections.abc import Mapping

from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Resource

# Type -> flag that must be true. GCP, OCI and Azure encrypt disks and buckets whatever is said.
_FLAGS: Mapping[str, str] = {
    "aws:ebs/volume:Volume": "encrypted",
    "aws:efs/fileSystem:FileSystem": "encrypted",
}
_BUCKET_RULES = (
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
)
_KMS = ("aws:kms", "aws:kms:dsse", UNKNOWN)
_FIX = "Encrypt it with a key of KMS"


def _encrypted(resource: Resource, _config: Config) -> Faults:
    kind = resource.type.replace("V2", "")
    flag = _FLAGS.get(kind)
    if flag and resource.at(flag) not in (True, UNKNOWN):
        yield Fault(resource, "what it holds is not encrypted", _FIX)
    if kind == _BUCKET_RULES:
        for rule in resource.parts("rules"):
            if rule.at("applyServerSideEncryptionByDefault.sseAlgorithm") not in _KMS:
                yield Fault(resource, "the bucket is not encrypted with a key of yours", _FIX)
    if kind == "aws:ec2/launchTemplate:LaunchTemplate":
        for device in resource.parts("blockDeviceMappings"):
            encrypted = str(device.at("ebs.encrypted"))
            if device.at("ebs") and encrypted.lower() != "true" and encrypted != UNKNOWN:
                yield Fault(resource, f"disk {device.at('deviceName')} is not encrypted", _FIX)
    if kind == "aws:eks/cluster:Cluster" and not resource.at("encryptionConfig"):
        yield Fault(resource, "Secrets in its etcd are not encrypted with a key of yours", _FIX)


POLICIES = (
    Policy(name="encrypted-at-rest", title="Disks and buckets are encrypted", one=_encrypted),
)
