"""A container of a manifest becomes the process that a kubelet would start."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_builders import pod

from fleet.errors import LabError
from lab.containers import Place, container_env, expand, process_plan

HERE = Place(address="127.64.0.10", folder=Path("/lab/pod"))


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
        pod("a", spec={"containers": [container]}, labels={"k3fleet.io/rack": "r01"}), HERE
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
    plan = process_plan(pod("gateway", spec=spec), HERE)
    assert plan.argv == ("envoy", "-c", "/lab/pod/volumes/config/envoy.yaml", "/etc/envoyx")
    [volume], [mount] = plan.volumes, plan.mounts
    assert (volume.kind, volume.name) == ("ConfigMap", "gateway-1")
    assert mount.source == volume.folder == Path("/lab/pod/volumes/config")
    assert mount.path == Path("/lab/pod/root/etc/envoy")


def test_a_part_of_an_object_is_copied_and_a_part_of_a_folder_is_seen():
    """As in Kubernetes, where a file that is mounted by subPath never changes again."""
    spec = {
        "containers": [
            {
                "name": "main",
                "command": ["serve", "/etc/one.yaml", "/cache/x"],
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/one.yaml", "subPath": "a.yaml"},
                    {"name": "tmp", "mountPath": "/cache", "subPath": "kernels"},
                ],
            }
        ],
        "volumes": [
            {"name": "config", "secret": {"secretName": "s", "optional": True}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    plan = process_plan(pod("a", spec=spec), HERE)
    assert [(mount.source.name, mount.copied) for mount in plan.mounts] == [
        ("a.yaml", True),
        ("kernels", False),
    ]
    assert plan.argv == ("serve", "/lab/pod/root/etc/one.yaml", "/lab/pod/volumes/tmp/kernels/x")
    assert (plan.volumes[0].kind, plan.volumes[0].optional) == ("Secret", True)


def test_a_container_without_command_is_refused():
    """The lab has no images, so an image's own entry point cannot run."""
    with pytest.raises(LabError, match="neither command nor args"):
        process_plan(pod("a"), HERE)


def test_an_unknown_field_is_refused_by_name():
    """A silent empty value would fail far away from its cause."""
    entry = {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}
    spec = {"containers": [{"name": "main", "command": ["x"], "env": [entry]}]}
    with pytest.raises(LabError, match=r"status\.hostIPs"):
        process_plan(pod("a", spec=spec), HERE)


def test_the_value_of_a_flag_may_be_a_path_below_a_mount():
    """Command templates write `--weights=/weights` as often as two words."""
    container = {
        "name": "main",
        "command": ["serve", "--weights=/weights/k3", "--note=/weightsx", "/weights=x"],
        "volumeMounts": [{"name": "weights", "mountPath": "/weights"}],
    }
    place = Place(
        address="127.64.0.10", folder=Path("/lab/pod"), volumes={"weights": Path("/model")}
    )
    plan = process_plan(pod("a", spec={"containers": [container]}), place)
    assert plan.argv[1:] == ("--weights=/model/k3", "--note=/weightsx", "/weights=x")


def test_an_empty_volume_is_a_folder_of_the_pod():
    """A program that is told to write there must find it."""
    spec = {
        "containers": [{"name": "main", "command": ["serve"]}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    plan = process_plan(pod("a", spec=spec), HERE)
    assert plan.folders == (Path("/lab/pod/volumes/tmp"),)


def test_a_variable_may_be_known_better_in_the_lab():
    """Later ones that name it get the lab's value too."""
    container = {
        "name": "main",
        "env": [{"name": "A", "value": "x.svc"}, {"name": "URL", "value": "http://$(A)"}],
    }
    place = Place(address="127.64.0.10", folder=Path("/lab/pod"), env={"A": "127.64.0.11"})
    found = container_env(pod("a", spec={"containers": [container]}), place)
    assert found == {"A": "127.64.0.11", "URL": "http://127.64.0.11"}
