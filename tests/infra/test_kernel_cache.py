"""The cache of compiled kernels: found again by the same three, and by nobody else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import ConfigError
from fleet.flag_table import known_versions, load_table
from fleet.load import Fleet
from fleet.release import Release
from infra.engine import engine_env
from infra.kernel_cache import MOUNT, kernel_cache, kernel_cache_env
from infra.options import Options
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
ON_NODES = {"kernel_cache": {"path": "/mnt/k3fleet/kernels"}}
IN_CLAIM = {"kernel_cache": {"claim": "kernels"}}


def pods(objects: list[KubeObject]) -> Iterator[dict[str, Any]]:
    for item in objects:
        if item["kind"] == "LeaderWorkerSet":
            templates = item["spec"]["leaderWorkerTemplate"]
            yield templates["leaderTemplate"]["spec"]
            yield templates["workerTemplate"]["spec"]
        if item["kind"] == "DynamoGraphDeployment":
            yield item["spec"]["components"][0]["podTemplate"]["spec"]


def engine_pods(fleet: Fleet, options: Options | None = None) -> list[dict[str, Any]]:
    return list(pods(render_region(fleet, "us-east", "serving", options)))


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def changed(release: Release, digest: str, tensor: int) -> Release:
    engine = release.engine.model_copy(update={"image": f"engine:1@sha256:{digest}"})
    split = release.parallelism.model_copy(update={"tensor": tensor})
    return release.model_copy(update={"engine": engine, "parallelism": split})


builds = st.tuples(
    st.sampled_from(["a" * 64, "a" * 63 + "b"]),
    st.sampled_from(["NVIDIA-GB300", "NVIDIA-GB200"]),
    st.sampled_from([8, 16]),
)


@settings(max_examples=64)
@given(one=builds, other=builds)
def test_a_folder_belongs_to_one_image_gpu_and_split(
    make_fleet: MakeFleet, one: tuple[str, str, int], other: tuple[str, str, int]
) -> None:
    """Kernels of another build or GPU crash at best; of the same they save minutes."""
    fleet = make_fleet(SMALL, **ON_NODES)
    folders = []
    for digest, gpu, tensor in (one, other):
        hardware = fleet.hardware.model_copy(update={"gpu_product": gpu})
        there = dataclasses.replace(fleet, hardware=hardware)
        found = kernel_cache(there, changed(fleet.release, digest, tensor), Options())
        assert found
        folders.append(found.folder)
    assert (folders[0] == folders[1]) == (one == other)


def test_a_release_with_other_settings_finds_the_same_kernels(make_fleet: MakeFleet) -> None:
    """A rollout of a longer queue or another router must not compile anew."""
    fleet = make_fleet(SMALL, **ON_NODES)
    other = fleet.release.model_copy(update={"max_num_seqs": 8, "name": "other"})
    assert kernel_cache(fleet, other, Options()) == kernel_cache(fleet, fleet.release, Options())


@pytest.mark.parametrize("backend", ["lws", "dgd"])
@pytest.mark.parametrize("place", [ON_NODES, IN_CLAIM], ids=["path", "claim"])
@pytest.mark.parametrize("release", ["vllm-tp8", "sglang-tp8", "vllm-pd-2p1d"])
def test_all_that_engines_compile_lands_in_the_cache(
    make_fleet: MakeFleet, backend: str, place: dict[str, Any], release: str
) -> None:
    """A variable that points elsewhere writes into the container, which dies with the pod."""
    for pod in engine_pods(make_fleet(SMALL, backend=backend, release=release, **place)):
        (container,) = pod["containers"]
        mount = named(container["volumeMounts"], "kernel-cache")
        assert mount["mountPath"] == MOUNT
        assert not mount.get("readOnly")
        env = {item["name"]: item.get("value", "") for item in container["env"]}
        folders = {name: value for name, value in env.items() if value.startswith("/kernel")}
        assert {"TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"} < set(folders)
        assert any(name.startswith(("VLLM_", "SGLANG_")) for name in folders)
        for folder in folders.values():
            assert PurePosixPath(folder).is_relative_to(MOUNT)


def test_on_a_node_the_folder_is_made_when_it_is_missing(make_fleet: MakeFleet) -> None:
    """The first start of a new image is what fills it."""
    fleet = make_fleet(SMALL, **ON_NODES)
    digest = str(fleet.release.engine.image).rpartition(":")[2]
    for pod in engine_pods(fleet):
        assert named(pod["volumes"], "kernel-cache")["hostPath"] == {
            "path": f"/mnt/k3fleet/kernels/{digest}-NVIDIA-GB300-tp8",
            "type": "DirectoryOrCreate",
        }


@pytest.mark.parametrize("backend", ["lws", "dgd"])
def test_in_a_claim_each_node_has_a_folder_of_its_own(make_fleet: MakeFleet, backend: str) -> None:
    """Two nodes that compile the same kernel would write the same file over the network."""
    for pod in engine_pods(make_fleet(SMALL, backend=backend, **IN_CLAIM)):
        (container,) = pod["containers"]
        mount = named(container["volumeMounts"], "kernel-cache")
        assert mount["subPathExpr"].endswith("-NVIDIA-GB300-tp8/$(NODE_NAME)")
        field = named(container["env"], "NODE_NAME")["valueFrom"]["fieldRef"]["fieldPath"]
        assert field == "spec.nodeName"
        claim = named(pod["volumes"], "kernel-cache")["persistentVolumeClaim"]
        assert claim == {"claimName": "kernels"}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_version_reads_the_variables_that_it_gets(demo: Fleet, engine: str) -> None:
    """An engine ignores a variable that it does not know, and compiles anew each time."""
    versions = known_versions("vllm" if engine == "vllm" else "sglang")
    assert versions
    for version in versions:
        described = demo.release.engine.model_copy(update={"kind": engine, "version": version})
        release = demo.release.model_copy(update={"engine": described})
        table = load_table("vllm" if engine == "vllm" else "sglang", version)
        own = [name for name in kernel_cache_env(release) if name.startswith(engine.upper())]
        assert own
        assert [name for name in own if not table.reads(name)] == []


@pytest.mark.parametrize(("changes", "options"), [({}, Options()), (IN_CLAIM, Options(bare=True))])
def test_without_the_setting_nothing_is_kept(
    make_fleet: MakeFleet, changes: dict[str, Any], options: Options
) -> None:
    """It is the team's decision; in the lab nobody makes the claim, and pods would wait for it."""
    for pod in engine_pods(make_fleet(SMALL, **changes), options):
        assert "kernel-cache" not in str(pod)
        assert "TRITON_CACHE_DIR" not in str(pod)


def test_it_takes_the_place_of_a_folder_that_the_release_has(make_fleet: MakeFleet) -> None:
    """The published TensorRT-LLM recipe keeps kernels in /tmp, which is lost with the pod."""
    fleet = make_fleet(SMALL, **ON_NODES)
    own = {"TRITON_CACHE_DIR": "/tmp/triton-cache"}  # noqa: S108 - the recipe's
    release = fleet.release.model_copy(update={"env": own})
    assert engine_env(release, "k3")["TRITON_CACHE_DIR"] == own["TRITON_CACHE_DIR"]
    placed = engine_env(release, "k3", kernel_cache_env(release))
    assert placed["TRITON_CACHE_DIR"] == f"{MOUNT}/triton"


@pytest.mark.parametrize("path", ["/mnt/k3fleet/weights", "/mnt/k3fleet/weights/kernels", "/mnt"])
def test_the_cache_lies_apart_from_the_weights(make_fleet: MakeFleet, path: str) -> None:
    """The weights stage deletes there what nobody wants, by rules of its own."""
    fleet = make_fleet(SMALL, kernel_cache={"path": path})
    with pytest.raises(ConfigError, match="for example /mnt/k3fleet/kernels"):
        engine_pods(fleet)


def test_an_image_without_digest_has_no_cache(make_fleet: MakeFleet) -> None:
    """A moved tag would run with the kernels of its predecessor."""
    fleet = make_fleet(SMALL, **ON_NODES)
    engine = fleet.release.engine.model_copy(update={"image": "vllm:latest"})
    with pytest.raises(ConfigError, match="kernel_cache needs the image's digest"):
        kernel_cache(fleet, fleet.release.model_copy(update={"engine": engine}), Options())
