"""No bucket is open to the world: by an access list, a policy, a member, or a missing block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Resource

_CLOSE = "Give it to named accounts and roles only"
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_EVERYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
_BUCKET = "aws:s3/bucket:Bucket"
# Each bucket needs one of each; pulumi-aws keeps the older names with V2 as well.
_SETTINGS: Mapping[str, str] = {
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "a public access block",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        "encryption with a key"
    ),
    "aws:s3/bucketVersioning:BucketVersioning": "versioning",
}


def _access_list(resource: Resource) -> Faults:
    acl = resource.at("acl")
    if isinstance(acl, str) and acl.startswith(("public-", "authenticated-")):
        yield Fault(resource, f"the access list {acl} opens it to everybody", _CLOSE)
    for grant in resource.parts("accessControlPolicy.grants") + resource.parts("grants"):
        uri = str(grant.at("grantee.uri") or grant.at("uri"))
        if uri.endswith(("/AllUsers", "/AuthenticatedUsers")):
            yield Fault(resource, "a grant opens it to everybody", _CLOSE)


def _block(resource: Resource) -> Faults:
    missing = [key for key in _BLOCKS if resource.at(key) not in (True, UNKNOWN)]
    if missing:
        yield Fault(resource, f"public access is not blocked: {', '.join(missing)}", "Set all four")


def _policy(resource: Resource) -> Faults:
    for statement in _statements(resource.at("policy")):
        if statement.get("Effect") != "Allow" or not _is_everybody(statement.get("Principal")):
            continue
        if not _is_narrowed(statement.get("Condition")):
            yield Fault(resource, "its policy allows everybody something", _CLOSE)


def _statements(text: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(text, str) or text == UNKNOWN:
        return
    try:
        found = json.loads(text).get("Statement", [])
    except (ValueError, AttributeError, RecursionError):
        return  # AWS refuses it
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, Mapping):
            yield item


def _is_everybody(principal: object) -> bool:
    if isinstance(principal, Mapping):
        return any(_is_everybody(value) for value in principal.values())
    return "*" in principal if isinstance(principal, list) else principal == "*"


def _is_narrowed(condition: object) -> bool:
    """Say whether only an account's or an organisation's own may pass."""
    tests = condition.items() if isinstance(condition, Mapping) else ()
    own = ("aws:principalaccount", "aws:principalorgid", "aws:sourceaccount", "aws:sourcearn")
    return any(
        kind.startswith(("StringEquals", "ArnEquals", "ArnLike"))
        and isinstance(test, Mapping)
        and any(key.lower() in own and value != "*" for key, value in test.items())
        for kind, test in tests
    )


def _gcp_bucket(resource: Resource) -> Faults:
    if resource.at("publicAccessPrevention") not in ("enforced", UNKNOWN):
        yield Fault(
            resource, "public access is not prevented", "Set publicAccessPrevention: enforced"
        )
    if resource.at("uniformBucketLevelAccess") not in (True, UNKNOWN):
        yield Fault(resource, "objects have access lists of their own", "Set uniform access")


def _gcp_members(resource: Resource) -> Faults:
    members = {str(resource.at("member")), *map(str, resource.items("members"))}
    if members & _EVERYBODY:
        yield Fault(resource, "everybody is a member", _CLOSE)


def _oci_bucket(resource: Resource) -> Faults:
    if resource.at("accessType") not in (None, "NoPublicAccess", UNKNOWN):
        what = f"its access type {resource.at('accessType')} opens it to everybody"
        yield Fault(resource, what, "Set NoPublicAccess")


def _azure_account(resource: Resource) -> Faults:
    if resource.at("allowBlobPublicAccess") not in (False, UNKNOWN):
        yield Fault(resource, "blobs may be public", "Set allowBlobPublicAccess: false")


def _azure_container(resource: Resource) -> Faults:
    if resource.at("publicAccess") not in (None, "None", UNKNOWN):
        yield Fault(resource, "its blobs are public", "Set publicAccess: None")


_CHECKS: Mapping[str, tuple[Callable[[Resource], Faults], ...]] = {
    _BUCKET: (_access_list, _policy),
    "aws:s3/bucketAcl:BucketAcl": (_access_list,),
    "aws:s3/bucketObject:BucketObject": (_access_list,),
    "aws:s3/bucketPolicy:BucketPolicy": (_policy,),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": (_block,),
    "gcp:storage/bucket:Bucket": (_gcp_bucket,),
    "gcp:storage/bucketIAMMember:BucketIAMMember": (_gcp_members,),
    "gcp:storage/bucketIAMBinding:BucketIAMBinding": (_gcp_members,),
    "oci:ObjectStorage/bucket:Bucket": (_oci_bucket,),
    "azure-native:storage:StorageAccount": (_azure_account,),
    "azure-native:storage:BlobContainer": (_azure_container,),
    "coreweave:index/objectStorageBucketPolicy:ObjectStorageBucketPolicy": (_policy,),
}


def _public(resource: Resource, _config: Config) -> Faults:
    for check in _CHECKS.get(resource.type.replace("V2", ""), ()):
        yield from check(resource)


def _complete(resources: Sequence[Resource], _config: Config) -> Faults:
    """Find buckets whose settings nobody has declared: AWS keeps each in a resource of its own."""
    for bucket in resources:
        if bucket.type.replace("V2", "") != _BUCKET:
            continue
        for kind, what in _SETTINGS.items():
            if not any(_sets(item, kind, bucket) for item in resources):
                yield Fault(bucket, f"the bucket has not {what}", "Declare it beside the bucket")


def _sets(setting: Resource, kind: str, bucket: Resource) -> bool:
    if setting.type.replace("V2", "") != kind:
        return False
    named = setting.at("bucket")
    own = bucket.at("bucket")
    return bucket.urn in setting.uses.get("bucket", ()) or (named is not None and named == own)


POLICIES = (
    Policy(name="bucket-not-public", title="No bucket is open to the world", one=_public),
    Policy(
        name="bucket-settings",
        title="Every S3 bucket blocks public access, is encrypted and keeps old versions",
        stack=_complete,
    ),
)
