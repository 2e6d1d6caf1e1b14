"""A container of a manifest becomes the process that a kubelet would start."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_builders import pod

from fleet.errors import LabError
from lab.containers import container_env, expand, process_plan


def test_variables_may_name_earlier_ones():
    """Manifests build addresses out of downward-API fields."""
    container = {
        "name": "main",
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "URL", "value": "http://$(POD_IP):9090"},
            {
                "name": "NAME",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['k3fleet.io/rack']"}},
            },
        ],
    }
    found = container_env(
        pod("a", spec={"containers": [container]}, labels={"k3fleet.io/rack": "r01"}), "127.64.0.10"
    )
    assert found == {"POD_IP": "127.64.0.10", "URL": "http://127.64.0.10:9090", "NAME": "r01"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)/x", "1/x"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$A ${A}", "$A ${A}"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, result: str):
    """Only `$(NAME)` of a known name is replaced, and `$$` escapes."""
    assert expand(text, {"A": "1"}) == result


def test_paths_below_a_mount_become_paths_of_this_machine():
    """Envoy gets the rendered file from where the lab wrote the config map."""
    spec = {
        "containers": [
            {
                "name": "main",
                "command": ["envoy", "-c", "/etc/envoy/envoy.yaml", "/etc/envoyx"],
                "volumeMounts": [{"name": "config", "mountPath": "/etc/envoy"}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "gateway-1"}}],
    }
    plan = process_plan(pod("gateway", spec=spec), "127.64.0.10", Path("/lab/pod"))
    assert plan.argv == ("envoy", "-c", "/lab/pod/volumes/config/envoy.yaml", "/etc/envoyx")
    assert plan.config_maps == {"gateway-1": Path("/lab/pod/volumes/config")}


def test_a_container_without_command_is_refused():
    """The lab has no images, so an image's own entry point cannot run."""
    with pytest.raises(LabError, match="neither command nor args"):
        process_plan(pod("a"), "127.64.0.10", Path("/lab"))


def test_an_unknown_field_is_refused_by_name():
    """A silent empty value would fail far away from its cause."""
    entry = {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}
    spec = {"containers": [{"name": "main", "command": ["x"], "env": [entry]}]}
    with pytest.raises(LabError, match=r"status\.hostIPs"):
        process_plan(pod("a", spec=spec), "127.64.0.10", Path("/lab"))
