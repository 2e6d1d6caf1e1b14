"""Our own rendering of every preset, through the whole linter: clean, and without waivers.

A fleet file in, as `k3fleet lint FLEET_FILE` takes it. Infos may be said.
"""

from __future__ import annotations

from datetime import date
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from fleet.load import Fleet, load_fleet, load_release, preset_names
from fleet.memory import role_memories
from fleet.release_checks import backend_problem
from fleet.spec import Backend, Kubernetes
from infra.lint.engine_memory import judged_engines
from infra.lint.ruleset import RULES
from infra.lint.run import Report, lint
from infra.lint.scene import Scene
from infra.lint.subject import Subject, subject

DAY = date(2026, 11, 30)
IMAGE = f"registry.internal/engine:1.0@sha256:{'0' * 64}"
PLAIN = ""
EVERYTHING = f"""\
frontends: {{replicas: 2}}
gateway: {{replicas: 3}}
secrets: {{image_pull: registry, hf_token: hf, external_store: vault}}
scheduling: SCHEDULING
weights_stage: {{image: "{IMAGE}"}}
router: {{mode: kv, session_affinity: soft, policy: {{}}}}
"""
# Dynamo's operator makes the pods of `dgd`, and knows KAI alone.
SCHEDULING: list[tuple[Backend, str]] = [
    ("lws", "{gang: kai, queue: inference}"),
    ("lws", "{gang: volcano, queue: inference}"),
    ("lws", "{kueue_queue: shared}"),
    ("dgd", "{gang: kai, queue: inference}"),
]
SERVED: list[tuple[str, Backend]] = [
    (preset, backend)
    for preset, backend in product(preset_names("release"), get_args(Backend))
    if backend_problem(backend, load_release(preset, beside=Path())) is None
]


def given(folder: Path, preset: str, backend: Backend, more: str = PLAIN) -> Subject:
    """Take a fleet with one full rack; its release has an image, which one preset has not."""
    (folder / "release.yaml").write_text(f"extends: {preset}\nengine: {{image: '{IMAGE}'}}\n")
    racks = "gb200-nvl72" if preset.endswith("gb200") else "gb300-nvl72"
    file = folder / "fleet.yaml"
    file.write_text(
        "apiVersion: k3fleet/v1\nname: launch\nrelease: ./release.yaml\n"
        f"hardware: {racks}\nbackend: {backend}\n{more}"
        "regions:\n  - {name: us-east, racks: [{id: use1-r01}]}\n"
    )
    return subject([file])


def scene_of(fleet: Fleet) -> Scene:
    """Render a fleet for the rules."""
    return subject([fleet.path]).scene


def judged(found: Subject) -> Report:
    """Run all rules, with the waivers that the file has: none."""
    assert found.waivers == ()
    return lint(found.scene, RULES, today=DAY)


def complaints(report: Report) -> list[str]:
    return [
        f"{item.rule} {item.object}: {item.path}: {item.what}"
        for item in report.findings
        if item.severity != "info"
    ]


@pytest.mark.parametrize(("preset", "backend"), SERVED)
def test_a_preset_is_clean(tmp_path: Path, preset: str, backend: Backend) -> None:
    """Who is shown a finding about a file that came with the tool believes none of the others."""
    found = given(tmp_path, preset, backend)
    nodes = load_release(preset, beside=tmp_path).nodes
    assert len(found.scene.engines) == 18 // nodes, "the rules must have had engines to look at"
    assert complaints(judged(found)) == []


@pytest.mark.parametrize(("preset", "backend"), SERVED)
def test_memory_is_judged_by_the_numbers_of_the_release(
    tmp_path: Path, preset: str, backend: Backend
) -> None:
    """What the linter reads out of a rendering is what `plan` promises for the release."""
    given(tmp_path, preset, backend)
    fleet = load_fleet(tmp_path / "fleet.yaml")
    promised = role_memories(fleet.model, fleet.hardware, fleet.release)
    read = {engine.shape.role: engine.memory for engine in judged_engines(scene_of(fleet))}
    assert read == promised


@pytest.mark.parametrize(("backend", "scheduling"), SCHEDULING)
@pytest.mark.parametrize("preset", ["vllm-tp8-dcp8", "sglang-pd-2p1d-dspark"])
def test_everything_that_a_fleet_file_can_add_is_clean(
    tmp_path: Path, preset: str, backend: Backend, scheduling: str
) -> None:
    """Secrets, queues, the weights stage and gang schedulers bring objects of their own."""
    found = given(tmp_path, preset, backend, EVERYTHING.replace("SCHEDULING", scheduling))
    assert complaints(judged(found)) == []


@pytest.mark.parametrize("kubernetes", get_args(Kubernetes))
def test_a_preset_is_clean_on_every_version_of_kubernetes(
    tmp_path: Path, kubernetes: Kubernetes
) -> None:
    """What is rendered is the same for all of them."""
    found = given(tmp_path, "vllm-tp8-dcp8", "lws", f'kubernetes: "{kubernetes}"\n')
    assert complaints(judged(found)) == []


def test_what_breaks_a_rendering_is_seen(tmp_path: Path) -> None:
    """Else clean would mean that nobody looked."""
    found = given(tmp_path, "vllm-tp8-dcp8", "lws")
    (*_, last) = found.scene.of("LeaderWorkerSet")
    rolling = {"partition": 0, "maxSurge": 1, "maxUnavailable": 1}
    last.data["spec"]["rolloutStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": rolling,
    }
    assert [line.partition(" ")[0] for line in complaints(judged(found))] == ["K003"]
