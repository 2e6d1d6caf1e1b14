"""What is asked of CoreWeave, in two steps."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from cloud_fleets import Outcome, Run


@pytest.fixture(scope="module")
def made(run: Run) -> Outcome:
    """Run the page's example, with a kubeconfig."""
    return run("coreweave")


def changed(**keys: Any) -> Any:
    """Change keys of the example's cluster; None takes one out."""

    def change(region: dict[str, Any]) -> None:
        for key, value in keys.items():
            region["cluster"].pop(key, None)
            if value is not None:
                region["cluster"][key] = value

    return change


def test_without_a_kubeconfig_there_are_no_racks(run: Run) -> None:
    """The cluster must be there before its objects; outputs say that no rack is."""
    first = run("coreweave", changed(kubeconfig=None))
    assert {it.type.rpartition(":")[2] for it in first.resources} == {"NetworkingVpc", "CksCluster"}
    assert first.outputs["racks"] == {}


def test_the_second_step_changes_nothing_of_the_first(made: Outcome, run: Run) -> None:
    """Otherwise the racks would come with a new cluster."""
    first = run("coreweave", changed(kubeconfig=None))
    assert {key: made.found[key] for key in first.found} == first.found


def test_a_kubeconfig_that_is_not_there_is_said_at_once(run: Run) -> None:
    """The provider would say so once per rack, and not where to look."""
    with pytest.raises(pulumi.RunError, match=r"cluster\.kubeconfig: .*/gone is not a file"):
        run("coreweave", changed(kubeconfig="./gone"))


def test_a_rack_is_a_pool_of_one_rack(made: Outcome) -> None:
    """CKS deploys NVL72 in whole racks and does not scale them by itself."""
    pool = made.named("use2-r01")["NodePool"]
    assert pool.inputs["spec"] == {
        "instanceType": "gb300-4x",
        "targetRacks": 1,
        "autoscaling": False,
        "nodeLabels": {"k3fleet.io/rack": "use2-r01"},
        "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    }
    assert pool.ignored == ("spec.targetNodes", "spec.targetRacks")


def test_a_cks_that_counts_nodes_gets_nodes(run: Run) -> None:
    """One edition of CoreWeave's reference has no targetRacks."""
    spec = run("coreweave", changed(size_in="nodes")).named("use2-r01")["NodePool"].inputs["spec"]
    assert spec["targetNodes"] == 18
    assert "targetRacks" not in spec


def test_pools_say_whose_they_are(made: Outcome) -> None:
    """They are the one thing at CoreWeave that can."""
    labels = made.named("use2-r01")["NodePool"].inputs["metadata"]["labels"]
    assert labels == {
        "k3fleet.io/fleet": "launch",
        "k3fleet.io/region": "us-east02",
        "k3fleet.io/managed-by": "k3fleet",
        "k3fleet.io/rack": "use2-r01",
    }


def test_the_kubeconfig_is_a_path_in_the_state(made: Outcome) -> None:
    """What is in the file holds a token."""
    inputs = next(it for it in made.providers if it.type.endswith(":kubernetes")).inputs
    assert inputs["kubeconfig"].endswith("/us-east02.kubeconfig")
    assert inputs["context"] == "launch-us-east02"
    assert inputs["clusterIdentifier"] == "launch-us-east02"


def test_networks_are_named_to_the_cluster(made: Outcome) -> None:
    """CKS takes networks by their names in the VPC."""
    parts = made.named("launch-us-east02")
    names = {part["name"] for part in parts["NetworkingVpc"].inputs["vpcPrefixes"]}
    cluster = parts["CksCluster"].inputs
    used = {cluster["podCidrName"], cluster["serviceCidrName"], *cluster["internalLbCidrNames"]}
    assert used == names == {"pods", "services", "load-balancers"}


def test_nothing_is_public_unless_asked(made: Outcome) -> None:
    """Neither the API server, nor what nodes announce."""
    parts = made.named("launch-us-east02")
    assert parts["CksCluster"].inputs["public"] is False
    assert parts["NetworkingVpc"].inputs["ingress"] == {"disablePublicServices": True}


def test_the_version_is_the_fleets(made: Outcome) -> None:
    """CKS takes a minor version, and patches it by itself."""
    assert made.named("launch-us-east02")["CksCluster"].inputs["version"] == "v1.35"
