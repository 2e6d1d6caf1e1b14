"""The provider's spelling of a definition's extensions."""

from __future__ import annotations

from infra.policy_pack.kubernetes import manifest_of
from infra.policy_pack.resource import Resource


def test_an_extension_is_judged_as_it_was_written() -> None:
    """Measured: the Kubernetes provider's outputs say x_kubernetes_preserve_unknown_fields."""
    schema = {"properties": {"data": {"x_kubernetes_preserve_unknown_fields": True, "a_b": 1}}}
    token = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"  # noqa: S105 - a type
    found = manifest_of(Resource(type=token, name="c", props={"spec": [schema]}))
    assert found is not None
    data = found.data["spec"][0]["properties"]["data"]
    assert data == {"x-kubernetes-preserve-unknown-fields": True, "a_b": 1}
