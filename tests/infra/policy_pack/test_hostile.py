"""Policies meet what other people's programs declare, in whatever shape."""

from __future__ import annotations

from datetime import date
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.policy_pack.encryption import POLICIES as ENCRYPTION
from infra.policy_pack.linted import Linter
from infra.policy_pack.pack import plain, policies
from infra.policy_pack.racks import _groups
from infra.policy_pack.resource import Policy, Provider, Resource
from infra.policy_pack.tags import taggable

# Names that policies look for, so that the shapes below them are met.
KEYS = (
    *("acl", "policy", "rules", "member", "members", "grants", "accessControlPolicy", "grantee"),
    *("blockDeviceMappings", "ebs", "encrypted", "encryptionConfig", "tags", "labels", "region"),
    *("metadata", "spec", "template", "containers", "env", "name", "value", "image", "data"),
    *("scalingConfig", "maxSize", "nodeConfig", "k3fleet.io/rack", "version", "chart", "type"),
    *("applyServerSideEncryptionByDefault", "leaderWorkerTemplate", "defaultTags", "bucket"),
)
TYPES = (
    *taggable(),
    *_groups(),
    "aws:s3/bucketAcl:BucketAcl",
    "aws:s3/bucketPolicy:BucketPolicy",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    "gcp:storage/bucketIAMBinding:BucketIAMBinding",
    "kubernetes:core/v1:Pod",
    "kubernetes:core/v1:Secret",
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:apps/v1:Deployment",
    "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
    "kubernetes:helm.sh/v3:Release",
    "pulumi:providers:aws",
    "odd",
    "",
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 40),
    st.text(max_size=8),
    st.sampled_from(['{"Statement": [1]}', '{"Statement": {"Effect": "Allow"}}', "[]", "{", "*"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
PROPS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


def resource(kind: str, props: Any, provider: Any) -> Resource:
    return Resource(
        type=kind,
        name="x",
        urn="urn",
        props=plain(props),
        provider=Provider(type="pulumi:providers:aws", name="p", props=plain(provider)),
    )


LINTED = Linter(date(2026, 1, 1)).policies()
JUDGED: tuple[Policy, ...] = policies(date(2026, 1, 1))[: -len(LINTED)]


@given(props=PROPS, provider=PROPS)
@settings(max_examples=100, deadline=None)
def test_no_shape_of_a_resource_breaks_a_policy(props: Any, provider: Any) -> None:
    """A traceback in a pack stops an update without saying what is wrong."""
    for kind in TYPES:
        item = resource(kind, props, provider)
        for policy in JUDGED:
            if policy.one:
                found = policy.one(item, {})
                assert all(isinstance(str(fault), str) for fault in found)


@given(one=PROPS, other=PROPS, provider=PROPS)
@settings(max_examples=30, deadline=None)
def test_no_shape_of_a_stack_breaks_a_policy(one: Any, other: Any, provider: Any) -> None:
    """The same for what is asked at the end."""
    stack = [resource(kind, props, provider) for kind in TYPES for props in (one, other)]
    for policy in JUDGED:
        if policy.stack:
            assert all(isinstance(str(fault), str) for fault in policy.stack(stack, {}))


@given(props=PROPS)
@settings(max_examples=20, deadline=None)
def test_no_shape_of_an_object_breaks_the_linters_policies(props: Any) -> None:
    """Its rules are for files of others, too."""
    for kind in (
        "apps/v1:Deployment",
        "leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
        "core/v1:Pod",
    ):
        for policy in LINTED:
            if policy.one:
                list(policy.one(resource(f"kubernetes:{kind}", props, {}), {}))


def test_whole_numbers_come_back_whole() -> None:
    """The protocol has floats only; a schema of Kubernetes refuses 2.0 pods."""
    sent: Any = {"replicas": 2.0, "share": 0.5, "items": [1.0, {"port": 80.0}]}
    assert plain(sent) == {"replicas": 2, "share": 0.5, "items": [1, {"port": 80}]}
    assert isinstance(plain(sent)["replicas"], int)


def test_disks_may_be_described_in_any_order() -> None:
    """One disk of several is enough to find."""
    item = Resource(
        type="aws:ec2/launchTemplate:LaunchTemplate",
        name="x",
        props={"blockDeviceMappings": [{"ebs": {"encrypted": "true"}}, {"ebs": {"iops": 1}}]},
    )
    assert [fault for policy in ENCRYPTION if policy.one for fault in policy.one(item, {})]
