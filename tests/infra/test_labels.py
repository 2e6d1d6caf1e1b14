"""What every object of a region says of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.load import Fleet
from infra.options import Layer, Options
from infra.render import render_region

MakeFleet = Callable[..., Fleet]

STANDARD = ("name", "instance", "part-of", "managed-by")
IN_A_RACK = ("LeaderWorkerSet", "DynamoGraphDeployment")


@pytest.mark.parametrize("backend", ["lws", "dgd"])
@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_every_object_says_whose_it_is(make_fleet: MakeFleet, backend: str, layer: Layer) -> None:
    """`kubectl get -l` is how an operator finds, counts and deletes what belongs together."""
    image = "registry.example/any@sha256:" + "0" * 64
    more = {
        "weights_stage": {"image": image},
        "node_report": {"image": image},
        "secrets": {"image_pull": "registry", "hf_token": "hub", "external_store": "vault"},
        "loadtest": {"image": image, "tokenizer_dir": "/opt/kimi"},
    }
    fleet = make_fleet({"use1-r01": 4}, backend=backend, **more)
    for item in render_region(fleet, "us-east", layer, Options()):
        labels = item["metadata"]["labels"]
        found = [labels[f"app.kubernetes.io/{name}"] for name in STANDARD]
        if item["kind"] == "CustomResourceDefinition":  # all regions of a cluster have the same one
            assert found[1:] == ["shared", "k3fleet", "k3fleet"], item
            assert not {"k3fleet.io/fleet", "k3fleet.io/region"} & labels.keys()
            continue
        assert found[1:] == ["us-east", "k3fleet", "k3fleet"], item
        assert (labels["k3fleet.io/fleet"], labels["k3fleet.io/region"]) == ("demo", "us-east")


@pytest.mark.parametrize("backend", ["lws", "dgd"])
def test_a_replica_and_its_pods_name_rack_replica_and_release(
    make_fleet: MakeFleet, backend: str
) -> None:
    """A rollout asks which replicas run what, and where."""
    fleet = make_fleet({"use1-r01": 4}, backend=backend)
    objects = render_region(fleet, "us-east", "serving", Options())
    replicas = [item for item in objects if item["kind"] in IN_A_RACK]
    assert [item["metadata"]["labels"]["k3fleet.io/replica"] for item in replicas] == [
        "use1-r01-0",
        "use1-r01-1",
    ]
    for item in replicas:
        labels = item["metadata"]["labels"]
        assert labels["k3fleet.io/rack"] == "use1-r01"
        assert labels["k3fleet.io/release"] == fleet.release_id
