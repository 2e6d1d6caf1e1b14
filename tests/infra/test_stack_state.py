"""What Pulumi exports of a stack is not what it should be."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import ApplyError
from infra.provision.pending import closings, read_pending
from infra.stack_state import read_state

URN = "urn:pulumi:s::p::kubernetes:core/v1:Namespace::Namespace/k3"
KEPT = {"urn": URN, "type": "kubernetes:core/v1:Namespace", "protect": True}


@pytest.mark.parametrize(
    ("deployment", "where"),
    [
        ([], "deployment"),
        ({"resources": {"a": KEPT}}, "deployment.resources"),
        ({"resources": [KEPT, "x"]}, "deployment.resources.1"),
        ({"resources": [{"type": "x"}]}, "deployment.resources.0.urn"),
        ({"resources": [{**KEPT, "urn": "urn:pulumi:s::p"}]}, "deployment.resources.0.urn"),
        ({"resources": [{**KEPT, "protect": "perhaps"}]}, "deployment.resources.0.protect"),
        ({"pending_operations": [{"type": "x"}]}, "deployment.pending_operations.0.resource"),
        (
            {"pending_operations": [{"type": "creating", "resource": {**KEPT, "inputs": []}}]},
            "deployment.pending_operations.0.resource.inputs",
        ),
    ],
)
def test_a_spoilt_state_is_named_with_the_place(deployment: Any, where: str) -> None:
    """Somebody has merged two versions of it, or edited it by hand."""
    with pytest.raises(ApplyError, match=r"^stack-a: its state is spoilt") as caught:
        read_state("stack-a", {"deployment": deployment})
    assert f": {where}: " in str(caught.value)
    assert "pulumi stack import" in str(caught.value)


@pytest.mark.parametrize(
    "exported", [{}, {"deployment": None}, {"deployment": {"resources": None}}]
)
def test_an_empty_state_is_whole(exported: dict[str, Any]) -> None:
    """Of a stack that was made and never brought up."""
    assert read_state("stack-a", exported).resources == ()


def test_metadata_that_is_a_secret_is_no_object_of_a_cluster() -> None:
    """Pulumi writes an encrypted value as a text; nobody can look for such an object."""
    inputs = {"apiVersion": "v1", "kind": "Namespace", "metadata": "v1:abc="}
    one = {"type": "creating", "resource": {**KEPT, "inputs": inputs}}
    state = read_state("stack-a", {"deployment": {"pending_operations": [one]}})
    [closing] = closings(read_pending(state), lambda _item: True)
    assert closing.verdict == "unknown"
