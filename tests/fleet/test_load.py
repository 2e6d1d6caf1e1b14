"""Loading a fleet file with everything it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fleet.checks import MAX_RACKS
from fleet.errors import ConfigError
from fleet.load import PRESET_FOLDERS, load_fleet, load_release, preset_names

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests/cases/fleet_errors").glob("*.yaml"))
WriteFile = Callable[..., Path]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_bad_fleet_file_shows_exactly_its_problems(
    case: Path, write_file: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case says in its first line why it is one; none missing, none invented."""
    content = yaml.safe_load(case.read_text())
    path = write_file(content["input"])
    monkeypatch.chdir(path.parent)
    with pytest.raises(ConfigError) as caught:
        load_fleet(Path("fleet.yaml"))
    assert [str(problem) for problem in caught.value.problems] == content["problems"]


def test_the_demo_fleet_is_two_full_racks() -> None:
    """Documentation, the rehearsal and its tests all start from it."""
    fleet = load_fleet(ROOT / "fleets/demo.yaml")
    racks = [rack for region in fleet.spec.regions for rack in region.racks]
    assert [(rack.id, rack.healthy_nodes) for rack in racks] == [("use1-r01", 18), ("euw1-r01", 18)]


@pytest.mark.parametrize("release", preset_names("release"))
def test_every_release_preset_fits_its_hardware(write_file: WriteFile, release: str) -> None:
    """A preset that does not load is a trap for the first user; some need an image first."""
    own = f"extends: {release}\nengine: {{image: 'mine:1@sha256:{'0' * 64}'}}\n"
    write_file(own, name="mine.yaml")
    hardware = "gb200-nvl72" if release.endswith("gb200") else "gb300-nvl72"
    backend = "dgd" if release.startswith("trtllm") else "lws"
    names = f"./mine.yaml\nhardware: {hardware}\nbackend: {backend}"
    fleet = load_fleet(write_file(change=("vllm-tp8-dcp8", names)))
    assert fleet.release_id.startswith(f"{release}-")


def test_an_engine_that_its_backend_cannot_start_is_refused(write_file: WriteFile) -> None:
    """Its pods would wait for each other for ever."""
    with pytest.raises(ConfigError, match=r"only Dynamo's operator sets up\. Write backend: dgd"):
        load_fleet(write_file(change=("vllm-tp8-dcp8", "trtllm-tep8")))


def test_a_preset_without_a_public_image_asks_for_one(write_file: WriteFile) -> None:
    """Kubernetes would say so on every node, an hour into the launch."""
    with pytest.raises(ConfigError, match=r"engine\.image: there is no public image of trtllm"):
        load_fleet(write_file(change=("vllm-tp8-dcp8", "trtllm-tep8")))


@pytest.mark.parametrize("kind", sorted(PRESET_FOLDERS))
def test_a_preset_is_named_like_its_file(kind: str) -> None:
    """A release id in a cluster must lead back to the file it came from."""
    for file in PRESET_FOLDERS[kind].glob("*.yaml"):
        assert yaml.safe_load(file.read_text())["name"] == file.stem


def test_a_release_path_is_relative_to_the_fleet_file(write_file: WriteFile) -> None:
    """So that a folder with both can be moved and used from anywhere."""
    preset = PRESET_FOLDERS["release"] / "vllm-tp8-dcp8.yaml"
    write_file(preset.read_text(), name="mine.yaml", change=("vllm-tp8-dcp8", "mine"))
    fleet = load_fleet(write_file(change=("vllm-tp8-dcp8", "./mine.yaml")))
    assert fleet.release.name == "mine"


def test_a_fault_in_a_named_file_is_shown_with_that_file(write_file: WriteFile) -> None:
    """The fleet file is right; the message must not send its author there."""
    preset = PRESET_FOLDERS["release"] / "vllm-tp8-dcp8.yaml"
    release = write_file(preset.read_text(), name="mine.yaml", change=("nodes: 2", "nodes: two"))
    with pytest.raises(ConfigError) as caught:
        load_fleet(write_file(change=("vllm-tp8-dcp8", "mine.yaml")))
    (problem,) = caught.value.problems
    line = release.read_text().splitlines().index("nodes: two") + 1
    assert (problem.file, problem.line, problem.path) == (str(release), line, "nodes")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("181.1GiB", "181.1 gibi"), "weights_per_gpu.8: '181.1 gibi' is not a size"),
        (("  8: 181.1GiB", "  eight: 181.1GiB"), "eight: expected a whole number as key"),
        (("vllm: 32.0GiB", "vlm: 32.0GiB"), "'vlm' is not one of the choices"),
    ],
)
def test_a_fault_in_a_model_file_is_found(
    write_file: WriteFile, change: tuple[str, str], said: str
) -> None:
    """A new model is a file, so the file must be as well guarded as the fleet's."""
    model = (PRESET_FOLDERS["model"] / "kimi-k3.yaml").read_text()
    write_file(model, name="mine.yaml", change=change)
    with pytest.raises(ConfigError) as caught:
        load_fleet(write_file(change=("name: demo", "name: demo\nmodel: mine.yaml")))
    assert said in str(caught.value)


def test_seconds_may_be_a_plain_number(write_file: WriteFile) -> None:
    """A bare number in a field of seconds is not a trap."""
    change = ("name: demo", "name: demo\nrouter: {session_affinity_ttl: 90}")
    assert load_fleet(write_file(change=change)).router.session_affinity_ttl_s == 90.0


def test_tp4_is_refused_with_the_arithmetic(write_file: WriteFile) -> None:
    """One node cannot hold K3; public generators still write it."""
    text = (PRESET_FOLDERS["release"] / "vllm-tp8-dcp8.yaml").read_text()
    text = text.replace("tensor: 8", "tensor: 4").replace("decode_context: 8", "decode_context: 4")
    write_file(text, name="tp4.yaml", change=("nodes: 2", "nodes: 1"))
    with pytest.raises(ConfigError) as caught:
        load_fleet(write_file(change=("vllm-tp8-dcp8", "tp4.yaml")))
    (problem,) = caught.value.problems
    assert problem.what == (
        "release vllm-tp8-dcp8: tensor 4 puts 349 GiB of weights on a GPU; "
        "278 GiB x 0.92 = 255 GiB, less 32.0 GiB for the runtime, is 126 GiB too little"
    )


def test_nodes_and_tensor_must_describe_the_same_gpus(write_file: WriteFile) -> None:
    """TP8 on one node of four GPUs would wait for ranks that never come."""
    preset = (PRESET_FOLDERS["release"] / "vllm-tp8-dcp8.yaml").read_text()
    write_file(preset, name="one.yaml", change=("nodes: 2", "nodes: 1"))
    with pytest.raises(ConfigError, match="1 nodes x 4 GPUs = 4 GPUs of a replica"):
        load_fleet(write_file(change=("vllm-tp8-dcp8", "one.yaml")))


def test_an_unknown_release_alone_lists_the_known_ones() -> None:
    """The rollout commands name releases without a fleet file."""
    with pytest.raises(ConfigError, match="Known: sglang-pd-1p2d, "):
        load_release("vllm", beside=Path("fleet.yaml"))


def test_many_problems_are_shown_as_one_page(write_file: WriteFile) -> None:
    """A hostile or generated file must not scroll the first message away."""
    keys = "".join(f"key{number}: 1\n" for number in range(500))
    with pytest.raises(ConfigError) as caught:
        load_fleet(write_file(keys))
    lines = str(caught.value).splitlines()
    assert len(lines) == 51
    assert lines[-1].endswith("there are more problems. Correct these first.")


def test_a_fleet_has_a_largest_size(write_file: WriteFile) -> None:
    """A generated file of 20,000 racks kept `plan` busy for most of a minute."""
    racks = "".join(f"\n      - id: r{number}x" for number in range(MAX_RACKS))
    file = write_file(change=("\n      - id: use1-r01", racks))
    assert len(load_fleet(file).spec.regions[0].racks) == MAX_RACKS
    file.write_text(file.read_text() + "      - id: more\n")
    with pytest.raises(ConfigError, match="2001 racks, 2000 are the most"):
        load_fleet(file)


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ("gpu_memory_utilization: 0.6", "gpu_memory_utilization"),
        ("kv_dtype: bfloat16", "kv_dtype"),
        ("state_pool_ratio: 900.0", "state_pool_ratio"),
        ("gpu_memory_utilization: 0.8\nkv_dtype: bfloat16", "gpu_memory_utilization"),
        ("nodes: 1", "nodes"),
        ("parallelism: {tensor: 4}", "parallelism.tensor"),
    ],
)
def test_what_does_not_fit_is_shown_where_it_was_changed(
    write_file: WriteFile, own: str, path: str
) -> None:
    """The preset's line is right; it is the changed value that makes it too much."""
    release = write_file(f"extends: vllm-tp8\nname: q\n{own}\n", name="mine.yaml")
    with pytest.raises(ConfigError) as caught:
        load_fleet(write_file(change=("vllm-tp8-dcp8", "mine.yaml")))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.path) == (str(release), 3, path)


def test_what_does_not_fit_one_job_is_shown_in_its_pool(write_file: WriteFile) -> None:
    """The other job has enough, so the shared value is not to blame."""
    own = "disaggregation:\n  decode:\n    gpu_memory_utilization: 0.5\n"
    write_file(f"extends: vllm-pd-2p1d\nname: q\n{own}", name="mine.yaml")
    with pytest.raises(ConfigError) as caught:
        load_fleet(write_file(change=("vllm-tp8-dcp8", "mine.yaml")))
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (5, "disaggregation.decode.gpu_memory_utilization")
