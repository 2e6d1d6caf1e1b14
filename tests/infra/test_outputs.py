"""What stacks tell their readers."""

from __future__ import annotations

from typing import get_args

import pytest

from fleet.errors import ConfigError
from infra.outputs import MODELS, ClusterOutputs, read_outputs, read_remembered
from infra.settings import StackLayer

CLUSTER = {
    "region": "us-east",
    "cloud": "aws",
    "cluster_name": "launch-us-east",
    "endpoint": "https://cluster.test",
    "ca": "Q0VSVA==",
    "racks": {"use1-r01": "use1-r01"},
    "kubeconfig_command": ["aws", "eks", "update-kubeconfig"],
}


def test_outputs_are_read_as_they_were_written() -> None:
    """Lists become tuples: nobody changes what a stack said."""
    outputs = read_outputs("cluster", "cluster-us-east", CLUSTER)
    assert isinstance(outputs, ClusterOutputs)
    assert outputs.kubeconfig_command == ("aws", "eks", "update-kubeconfig")


def test_what_a_newer_k3fleet_adds_is_left_aside() -> None:
    """Regions are brought up one after the other: the two versions meet."""
    assert read_outputs("cluster", "cluster-us-east", {**CLUSTER, "later": 1})


@pytest.mark.parametrize("layer", sorted(MODELS))
def test_an_output_that_is_null_is_not_stored(layer: StackLayer) -> None:
    """The engine leaves it out, so a reader may not count on a key whose value may be None."""
    fields = MODELS[layer].model_fields.items()
    empty = [name for name, field in fields if type(None) in get_args(field.annotation)]
    assert [name for name, field in fields if name in empty and field.is_required()] == []


def test_a_missing_output_names_stack_key_and_remedy() -> None:
    """The reader is another stack, hours later."""
    values = {key: value for key, value in CLUSTER.items() if key != "racks"}
    with pytest.raises(
        ConfigError, match=r"stack cluster-us-east: output racks: .*--layer cluster"
    ):
        read_outputs("cluster", "cluster-us-east", values)


def test_a_stack_without_outputs_was_never_applied() -> None:
    """That is no fault of the outputs."""
    with pytest.raises(ConfigError, match=r"no outputs\. Run `k3fleet up --layer cluster` first"):
        read_outputs("cluster", "cluster-us-east", {})


def test_a_wrong_value_is_not_shown() -> None:
    """What somebody exported by mistake may be a secret."""
    with pytest.raises(ConfigError) as caught:
        read_outputs("cluster", "cluster-us-east", {**CLUSTER, "racks": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_serials_come_back_as_numbers_from_json() -> None:
    """Pulumi writes every number as a float."""
    values = {"region": "us-east", "namespace": "k3", "serial": 3.0, "releases": {"a-0": "r1"}}
    assert read_outputs("serving", "serving-us-east", values).model_dump()["serial"] == 3


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"serial": "soon"}, "serial"),
        ({"releases": ["a"]}, "releases"),
        ({"releases": {"a": {}}}, "releases.a"),
        ({"cluster_uid": {"a": 1}}, "cluster_uid"),
    ],
)
def test_what_a_stack_is_asked_first_is_checked(values: dict[str, object], key: str) -> None:
    """It says which cluster a stack is of, and what its replicas run."""
    with pytest.raises(ConfigError, match=f"^stack s: output {key}: .*pulumi stack import"):
        read_remembered("s", values)
