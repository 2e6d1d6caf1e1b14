"""What is declared to Pulumi."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes
import pytest
from pulumi_mocks import Monitor, Request, exported, run_in

from fleet.load import Fleet
from infra.declared import logical_name, type_token
from infra.options import Layer, Options
from infra.program import declare, run
from infra.render import KubeObject, render_region


def declared(
    program: Callable[[], object], outputs: dict[str, Any] | None = None
) -> dict[str, Request]:
    """Run a program and return its Kubernetes resources by logical name.

    `outputs`: what the stack's last update left.
    """
    monitor = Monitor(outputs)
    run_in(monitor, program)
    return {item.name: item for item in monitor.requests if item.type.startswith("kubernetes:")}


def declare_layer(fleet: Fleet, layer: Layer) -> dict[str, Request]:
    def program() -> None:
        provider = pulumi_kubernetes.Provider("kubernetes", kubeconfig="/k")
        declare(render_region(fleet, "us-east", layer), provider)

    return declared(program)


@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_each_object_is_declared_once(demo: Fleet, layer: Layer) -> None:
    """Nothing is added to what `k3fleet render` shows, and nothing is left out."""
    objects = render_region(demo, "us-east", layer)
    assert sorted(declare_layer(demo, layer)) == sorted(map(logical_name, objects))


WORKER_METADATA = "CustomResourceDefinition/dynamoworkermetadatas.nvidia.com"  # of the cluster


def test_what_cannot_be_made_again_is_protected_and_kept(demo: Fleet) -> None:
    """Deleting a rack's domain takes NVLink from nine running replicas."""
    requests = declare_layer(demo, "platform")
    kept = {name for name, item in requests.items() if item.protect and item.retainOnDelete}
    assert kept == {WORKER_METADATA, "Namespace/k3", "ComputeDomain/k3/use1-r01"}


def test_everything_waits_for_the_namespace(demo: Fleet) -> None:
    """Objects of a namespace that is not there yet are refused."""
    requests = declare_layer(demo, "platform")
    for name, item in requests.items():
        needs = [urn.rpartition("::")[2] for urn in item.dependencies]
        assert needs == ([] if name in ("Namespace/k3", WORKER_METADATA) else ["Namespace/k3"])


def test_the_gateway_waits_for_its_file(demo: Fleet) -> None:
    """The old file may go only when the pods have the new one."""
    requests = declare_layer(demo, "serving")
    files = {name for name in requests if name.startswith("ConfigMap/k3/gateway-")}
    needs = requests["Deployment/k3/gateway"].dependencies
    assert {urn.rpartition("::")[2] for urn in needs} == files


def test_pulumi_does_not_wait_for_engines(demo: Fleet) -> None:
    """It would give up after ten minutes, and cannot be stopped in between."""
    for name, item in declare_layer(demo, "serving").items():
        if name.startswith(("LeaderWorkerSet/", "Deployment/", "Service/")):
            metadata = item.object.fields["metadata"].struct_value
            annotations = metadata.fields["annotations"].struct_value
            assert annotations.fields["pulumi.com/skipAwait"].string_value == "true"


def test_declaring_leaves_the_objects_as_they_are(demo: Fleet) -> None:
    """The same objects are compared with the cluster afterwards."""
    objects = render_region(demo, "us-east", "serving")

    def program() -> None:
        declare(objects, pulumi_kubernetes.Provider("kubernetes", kubeconfig="/k"))

    declared(program)
    assert objects == render_region(demo, "us-east", "serving")


@pytest.mark.parametrize(
    ("item", "token"),
    [
        ({"apiVersion": "v1", "kind": "Service"}, "kubernetes:core/v1:Service"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "kubernetes:apps/v1:Deployment"),
    ],
)
def test_types_are_named_as_the_provider_names_them(item: KubeObject, token: str) -> None:
    """The core group has no name in Kubernetes, but one in Pulumi."""
    assert type_token(item) == token


def test_a_whole_program_reads_its_stack(demo: Fleet, tmp_path: Path) -> None:
    """`pulumi up` by hand and the command line run the same program."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    stack = {"fleet": str(demo.path), "region": "us-east", "kubeconfig": str(kubeconfig)}
    pulumi.runtime.set_all_config(
        {f"k3fleet-test:{key}": value for key, value in {**stack, "dra": "false"}.items()}
    )
    objects = render_region(demo, "us-east", "serving", Options(dra=False))
    assert sorted(declared(lambda: run("serving"))) == sorted(map(logical_name, objects))


def test_an_older_checkout_than_what_is_deployed_is_refused(demo: Fleet, tmp_path: Path) -> None:
    """It would bring replicas back that another operator has updated since."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    stack = {"fleet": str(demo.path), "region": "us-east", "kubeconfig": str(kubeconfig)}
    pulumi.runtime.set_all_config(
        {f"k3fleet-test:{key}": value for key, value in {**stack, "serial": "3"}.items()}
    )
    for deployed in ({}, {"serial": 2.0}, {"serial": 3.0}):
        run_in(Monitor(deployed), lambda: run("serving"))
        assert exported()["serial"] == 3
    newer = Monitor({"serial": 4.0})
    with pytest.raises(pulumi.RunError, match=r"serial 3 is older than .* 4: .*rollout sync"):
        run_in(newer, lambda: run("serving"))
    # Neither an object is touched, nor is the old serial said to be the deployed one.
    assert [item.name for item in newer.requests if item.custom] == []
    assert {type(value) for value in exported().values()} == {pulumi.RunError}


def test_a_users_mistake_ends_the_program_without_a_traceback() -> None:
    """Pulumi prints the text of a RunError, and a traceback for everything else."""
    pulumi.runtime.set_all_config({"k3fleet-test:region": "us-east"})
    with pytest.raises(pulumi.RunError, match="fleet, kubeconfig not set"):
        declared(lambda: run("serving"))


@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_the_state_is_read_before_the_engine_writes_it(
    demo: Fleet, tmp_path: Path, layer: Layer
) -> None:
    """A stack that reads itself beside the first step that is saved may find an empty file."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    stack = {"fleet": str(demo.path), "region": "us-east", "kubeconfig": str(kubeconfig)}
    pulumi.runtime.set_all_config({f"k3fleet-test:{key}": value for key, value in stack.items()})
    monitor = Monitor()
    run_in(monitor, lambda: run(layer))
    [provider] = [item for item in monitor.requests if item.type.startswith("pulumi:providers:")]
    needed = provider.propertyDependencies["kubeconfig"].urns
    assert any("pulumi:pulumi:StackReference" in urn for urn in needed)


@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_nothing_is_made_in_another_cluster(demo: Fleet, tmp_path: Path, layer: Layer) -> None:
    """Plain `pulumi up` too must notice that a kubeconfig leads elsewhere since last time."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    stack = {"fleet": str(demo.path), "region": "us-east", "kubeconfig": str(kubeconfig)}
    pulumi.runtime.set_all_config({f"k3fleet-test:{key}": value for key, value in stack.items()})
    here = {"kubernetes:core/v1:Namespace": {"metadata": {"uid": "here"}}}
    for deployed in ({}, {"cluster_uid": "here"}):
        run_in(Monitor(deployed, here), lambda: run(layer))
        assert exported()["cluster_uid"] == "here"
    elsewhere = Monitor({"cluster_uid": "there"}, here)
    with pytest.raises(pulumi.RunError, match=r"leads to cluster here.*is of cluster there"):
        run_in(elsewhere, lambda: run(layer))
    objects = [item.name for item in elsewhere.requests if item.type.startswith("kubernetes:")]
    assert objects == []
