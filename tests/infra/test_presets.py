"""Every preset against the flags of its engine version and the memory of its hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.flag_check import Versions, check
from fleet.flag_table import known_versions
from fleet.hardware import Hardware
from fleet.load import PRESET_FOLDERS, load_model, load_release, preset_names
from fleet.memory import role_memories
from fleet.release import Role, release_for
from fleet.release_checks import release_problems
from fleet.schema import validate
from fleet.yaml_document import read_document
from infra.engine import engine_env, engine_roles

PRESETS = preset_names("release")
K3 = load_model("kimi-k3", beside=Path())
HERE = Path()


def _hardware(preset: str) -> Hardware:
    name = "gb200-nvl72" if preset.endswith("gb200") else "gb300-nvl72"
    hardware, problems = validate(
        Hardware, read_document(PRESET_FOLDERS["hardware"] / f"{name}.yaml")
    )
    assert hardware is not None, problems
    return hardware


ROLES: list[tuple[str, Role]] = [
    (preset, role)
    for preset in PRESETS
    for role in dict.fromkeys(load_release(preset, beside=HERE).roles)
]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_called_like_its_file(preset: str) -> None:
    """Its name is in every object and every id; the file is where a reader looks it up."""
    assert load_release(preset, beside=HERE).name == preset


@pytest.mark.parametrize(("preset", "role"), ROLES)
@pytest.mark.parametrize("placed_by_operator", [False, True])
def test_the_engine_takes_every_flag_of_a_preset(
    preset: str, role: Role, placed_by_operator: bool
) -> None:
    """One unknown flag ends an engine at start; an unknown variable is ignored in silence."""
    release = release_for(load_release(preset, beside=HERE), role)
    if not known_versions("vllm"):
        pytest.skip("the tables of fleet/flag_tables are not there yet")
    program = f"dynamo.{release.engine.kind}"
    versions = Versions(release.engine.version, release.dynamo.version)
    roles = engine_roles(K3, release, role, placed_by_operator=placed_by_operator)
    env = tuple(engine_env(release, "demo-us-east").items())
    assert [check(program, part.args, env, versions) for part in roles] == [(), ()]


@pytest.mark.parametrize(("preset", "role"), ROLES)
def test_no_flag_of_a_preset_is_given_twice(preset: str, role: Role) -> None:
    """Of two values an engine silently takes the last; bases and roles add flags apart."""
    release = release_for(load_release(preset, beside=HERE), role)
    args = engine_roles(K3, release, role)[1].args
    flags = [word.partition("=")[0] for word in args if word.startswith("--")]
    assert sorted(flags) == sorted(set(flags))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_fits_its_hardware(preset: str) -> None:
    """Each role holds the weights, and one request as long as the model promises."""
    memories = role_memories(K3, _hardware(preset), load_release(preset, beside=HERE))
    assert min(memory.kv_tokens for memory in memories.values()) >= K3.context_tokens


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_goes_together_with_the_model(preset: str) -> None:
    """Only an image may be missing, where the public has none."""
    paths = [path for path, _, _ in release_problems(K3, load_release(preset, beside=HERE))]
    assert paths == ([("engine", "image")] if preset == "trtllm-tep8" else [])
