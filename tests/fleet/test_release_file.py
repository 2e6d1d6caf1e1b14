"""Reading release files: what they extend, and what makes one unfit to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import load_fleet, load_release
from fleet.release import Release, release_id
from fleet.release_file import by_id, check_release
from fleet.release_text import frozen_text

WriteFile = Callable[..., Path]
DIGEST = "sha256:" + "0123456789abcdef" * 4
BASE = f"""\
name: base
engine: {{kind: vllm, image: "vllm:1@{DIGEST}", version: 0.29.0}}
dynamo: {{version: 1.6.1, image: "dynamo:1@{DIGEST}"}}
weights: {{revision: 9f62}}
parallelism: {{tensor: 8, decode_context: 8}}
block_size: 128
max_num_seqs: 64
max_batched_tokens: 16384
gpu_memory_utilization: 0.92
args:
  - --alpha=1
  - --beta
  - two
  - --gamma
env:
  ONE: "1"
"""
TWINS = (65759, 98276)  # seeds for which the ids of `_twin` are the same, found by trying


@pytest.fixture
def base(write_file: WriteFile) -> Path:
    return write_file(BASE, name="base.yaml")


def _load(path: Path) -> Release:
    return load_release(f"./{path.name}", beside=path)


def _problems(path: Path) -> list[str]:
    """Return what is wrong with a release, with names of files instead of paths."""
    with pytest.raises(ConfigError) as caught:
        _load(path)
    return [str(found).replace(f"{path.parent}/", "") for found in caught.value.problems]


def test_a_file_changes_what_it_says_and_inherits_the_rest(
    base: Path, write_file: WriteFile
) -> None:
    """A house variant is a few lines, and takes part in corrections of its base."""
    text = "extends: ./base.yaml\nname: mine\nparallelism: {expert: 8}\nenv: {TWO: '2'}\n"
    mine = _load(write_file(text, name="mine.yaml"))
    assert (mine.name, mine.block_size) == ("mine", 128)
    assert (mine.parallelism.decode_context, mine.parallelism.expert) == (8, 8)
    assert mine.env == {"ONE": "1", "TWO": "2"}


@pytest.mark.parametrize(
    ("own", "merged"),
    [
        ("[--alpha=9]", "--alpha=9 --beta two --gamma"),
        ("[--beta=9]", "--alpha=1 --beta=9 --gamma"),
        ("[--beta, nine, ten]", "--alpha=1 --beta nine ten --gamma"),
        ("[--new, --gamma]", "--alpha=1 --beta two --gamma --new"),
        ("[--new=1, --new=2]", "--alpha=1 --beta two --gamma --new=1 --new=2"),
        ("[]", "--alpha=1 --beta two --gamma"),
    ],
)
def test_an_argument_replaces_the_same_flag_in_its_place(
    base: Path, write_file: WriteFile, own: str, merged: str
) -> None:
    """Two of one flag would leave the choice to the engine."""
    path = write_file(f"extends: ./base.yaml\nargs: {own}\n", name="mine.yaml")
    assert " ".join(_load(path).args) == merged


def test_both_spellings_of_a_flag_are_one(base: Path, write_file: WriteFile) -> None:
    """Engines take `--max_x` for `--max-x`."""
    write_file(BASE, name="base.yaml", change=("--gamma", "--gamma_ray=1"))
    path = write_file("extends: ./base.yaml\nargs: [--gamma-ray=2]\n", name="mine.yaml")
    assert _load(path).args[-1] == "--gamma-ray=2"


def test_a_repeated_flag_is_replaced_as_a_whole(write_file: WriteFile) -> None:
    """Half of the old list beside the new one is what nobody means."""
    write_file(BASE, name="base.yaml", change=("- --gamma", "- --alpha=3"))
    path = write_file("extends: ./base.yaml\nargs: [--alpha=9]\n", name="mine.yaml")
    assert _load(path).args == ("--alpha=9", "--beta", "two")


def test_null_takes_a_section_away(write_file: WriteFile) -> None:
    """The way from a preset with speculation to the same one without."""
    draft = "speculation: {method: dspark, draft: d, revision: r, tokens: 7}\n"
    write_file(BASE + draft, name="base.yaml")
    path = write_file("extends: ./base.yaml\nspeculation: null\n", name="mine.yaml")
    assert _load(path).speculation is None


def test_a_preset_can_be_extended_by_name(write_file: WriteFile) -> None:
    """The usual base."""
    path = write_file("extends: vllm-tp8-dcp8\nname: mine\n", name="mine.yaml")
    preset = load_release("vllm-tp8-dcp8", beside=path)
    assert _load(path) == preset.model_copy(update={"name": "mine"})


def test_a_fault_is_shown_where_it_stands(write_file: WriteFile) -> None:
    """The reader must not be sent to a line that is right."""
    write_file(BASE + "nodse: 2\n", name="base.yaml", change=("- two", "- 2"))
    text = "extends: ./base.yaml\nargs: [--alpha, 3, --delta]\nkv_events: perhaps\n"
    assert [line.partition(". ")[0] for line in _problems(write_file(text, name="mine.yaml"))] == [
        "mine.yaml:3: kv_events: expected true or false, found 'perhaps'",
        "mine.yaml:2: args[1]: expected text, found 3",
        "base.yaml:13: args[3]: expected text, found 2",
        "base.yaml:17: nodse: unknown key",
    ]


def test_broken_yaml_in_a_base_is_the_only_problem(write_file: WriteFile) -> None:
    """A list of missing keys would hide it."""
    write_file("name: base\n\tkey: 1\n", name="base.yaml")
    (problem,) = _problems(write_file("extends: ./base.yaml\n", name="mine.yaml"))
    assert problem.startswith("base.yaml:2: invalid YAML: ")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("./none.yaml", "none.yaml cannot be read: No such file or directory. Check the path."),
        ("vllm-tp8-dcp9", "unknown release 'vllm-tp8-dcp9'. Did you mean 'vllm-tp8-dcp8'?"),
        ("7", "expected a preset or a path, found 7. Name a preset"),
        ("[a, b]", "expected a preset or a path, found a list."),
        ("./mine.yaml", "leads back to itself: mine.yaml -> mine.yaml. Cut the circle."),
        ("./other.yaml", "leads back to itself: mine.yaml -> other.yaml -> mine.yaml."),
    ],
)
def test_a_base_that_cannot_be_used_is_named_at_extends(
    write_file: WriteFile, written: str, said: str
) -> None:
    """One message, where the base is named, and none about the keys that it would have held."""
    write_file("# comment\nextends: ./mine.yaml\n", name="other.yaml")
    (problem,) = _problems(write_file(f"name: mine\nextends: {written}\n", name="mine.yaml"))
    assert ":2: extends: " in problem
    assert said in problem


def test_five_bases_are_enough(write_file: WriteFile) -> None:
    """A deeper stack is a maze for whoever looks for a value."""
    for number in range(7):
        write_file(f"extends: ./r{number + 1}.yaml\n", name=f"r{number}.yaml")
    top = write_file(BASE, name="r6.yaml").with_name("r1.yaml")
    assert _load(top).name == "base"
    (problem,) = _problems(top.with_name("r0.yaml"))
    assert problem.startswith("r5.yaml:1: extends: more than 5 files lie under each other: r0.yaml")


def _freeze(write_file: WriteFile, release: Release, **change: tuple[str, str]) -> Path:
    text = frozen_text(release, "base")
    return write_file(text, name=f"{release_id(release)}.yaml", **change)


def test_a_frozen_file_may_get_a_comment_but_no_other_value(
    base: Path, write_file: WriteFile
) -> None:
    """Its id is in clusters and reports; it must lead to what ran there."""
    release = _load(base)
    note = ("block_size: 128", "block_size: 128  # measured")
    assert _load(_freeze(write_file, release, change=note)) == release
    path = _freeze(write_file, release, change=("block_size: 128", "block_size: 64"))
    now = release_id(release.model_copy(update={"block_size": 64}))
    (problem,) = _problems(path)
    assert problem == (
        f"{path.name}: its content is release {now}, but its name says {release_id(release)}. "
        "Do not edit a frozen release: restore it, or make a new one with `k3fleet release new`."
    )


def test_a_fleet_refuses_an_edited_frozen_release(base: Path, write_file: WriteFile) -> None:
    """`plan` is where an SRE meets it first."""
    path = _freeze(write_file, _load(base), change=("gpu_memory_utilization: 0.92", "nodes: 2"))
    path.write_text(path.read_text().replace("nodes: 2\n", "gpu_memory_utilization: 0.9\n", 1))
    with pytest.raises(ConfigError, match="Do not edit a frozen release"):
        load_fleet(write_file(change=("vllm-tp8-dcp8", f"./{path.name}")))


def test_a_frozen_file_on_a_base_that_changed_is_refused(base: Path, write_file: WriteFile) -> None:
    """The content is what counts, wherever it is written."""
    path = write_file("extends: ./base.yaml\n", name=f"{release_id(_load(base))}.yaml")
    assert _load(path).name == "base"
    write_file(BASE, name="base.yaml", change=("block_size: 128", "block_size: 64"))
    assert "Do not edit a frozen release" in _problems(path)[0]


def test_a_name_that_ends_in_a_date_is_no_claim(write_file: WriteFile) -> None:
    """Eight digits are eight hex digits."""
    name = "nightly-20261129"
    assert _load(write_file(BASE, name=f"{name}.yaml", change=("base", name))).name == name


def _twin(seed: int) -> Release:
    return Release.model_validate(
        {
            "name": "twin",
            "engine": {"kind": "vllm", "version": "1"},
            "dynamo": {"version": "1", "image": "d"},
            "weights": {"revision": "r"},
            "parallelism": {"tensor": 8},
            "block_size": 64,
            "max_num_seqs": 8,
            "max_batched_tokens": 1024,
            "gpu_memory_utilization": 0.9,
            "env": {"SEED": str(seed)},
        }
    )


def test_two_releases_with_one_id_are_refused() -> None:
    """In a cluster nobody could tell them apart."""
    one, two = map(_twin, TWINS)
    assert release_id(one) == release_id(two)
    with pytest.raises(ConfigError) as caught:
        by_id([("a.yaml", one), ("b.yaml", two)])
    assert str(caught.value) == (
        f"b.yaml: name: two releases have the id {release_id(one)}, this one and a.yaml. "
        "Give one of them another name."
    )


def test_one_release_may_be_named_twice() -> None:
    """A stack's list may name the fleet's own release, too."""
    assert len(by_id([("a.yaml", _twin(1)), ("b.yaml", _twin(1))])) == 1


@pytest.mark.parametrize("key", ["exends", "extend", "Extends"])
def test_a_mistyped_extends_is_the_only_problem(write_file: WriteFile, key: str) -> None:
    """Without its base, all else of the release would be reported as missing."""
    assert _problems(write_file(f"{key}: vllm-tp8\nname: mine\n", name="mine.yaml")) == [
        f"mine.yaml:1: {key}: unknown key. Did you mean 'extends'?"
    ]


@pytest.mark.parametrize("revision", ["main", "HEAD", "refs/pr/7"])
def test_a_revision_that_moves_is_refused(write_file: WriteFile, revision: str) -> None:
    """A pod that starts next week would load other weights under the same id."""
    draft = f"speculation: {{method: dspark, draft: d, revision: {revision}, tokens: 7}}\n"
    path = write_file(BASE + draft, name="mine.yaml", change=("9f62", revision))
    what = f"revision: '{revision}' is whatever was pushed last."
    assert [line.partition(" Give")[0] for line in _problems(path)] == [
        f"mine.yaml:4: weights.{what}",
        f"mine.yaml:17: speculation.{what}",
    ]


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "hf_token", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "OPENAI_API_KEY"]
)
@pytest.mark.parametrize("place", ["env", "disaggregation.prefill.env"])
def test_a_credential_is_refused(write_file: WriteFile, name: str, place: str) -> None:
    """A release is copied into every cluster, report and log."""
    pools = "disaggregation:\n  decode: {replicas: 1}\n  prefill:\n    replicas: 1\n    env:\n"
    text, indent = (BASE, "  ") if place == "env" else (BASE + pools, "      ")
    path = write_file(f"{text}{indent}{name}: x\n", name="mine.yaml")
    line = len(path.read_text().splitlines())
    (problem,) = _problems(path)
    assert problem == (
        f"mine.yaml:{line}: {place}.{name}: {name!r} looks like a credential. "
        "Keep it out of releases: name its Secret under `secrets` of the fleet file."
    )


def test_a_credential_among_the_arguments_is_refused(write_file: WriteFile) -> None:
    """vLLM and SGLang take `--api-key`, and `ps` shows it to everybody."""
    path = write_file(BASE, name="mine.yaml", change=("--gamma", "--api-key=x"))
    assert "args[3]: '--api-key' looks like a credential" in _problems(path)[0]


@pytest.mark.parametrize(
    "name", ["SGLANG_PER_TOKEN_GROUP_QUANT_8BIT_V2", "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE"]
)
def test_tokens_of_a_model_are_no_credentials(write_file: WriteFile, name: str) -> None:
    """Engines count them in their settings."""
    assert name in _load(write_file(f"{BASE}  {name}: '1'\n", name="mine.yaml")).env


def test_an_id_fits_into_a_label(write_file: WriteFile) -> None:
    """Every object of a replica carries it as a label value."""
    path = write_file(BASE, name="mine.yaml", change=("name: base", f"name: {'n' * 55}"))
    (problem,) = _problems(path)
    assert problem.startswith("mine.yaml:1: name: the id ")
    assert problem.endswith("labels hold 63. Shorten the name to 54.")


def test_null_takes_flags_and_single_variables_away(write_file: WriteFile) -> None:
    """Another engine understands none of them, and a base may be a file that one cannot change."""
    write_file("extends: vllm-tp8-dcp8\nname: base\nenv: {NCCL_DEBUG: WARN}\n", name="base.yaml")
    path = write_file(
        "extends: ./base.yaml\nname: mine\nargs: null\nenv: {NCCL_DEBUG: null}\n", name="mine.yaml"
    )
    release, problems = check_release(path)
    assert (problems, release and release.args) == ([], ())
    assert release is not None
    assert "NCCL_DEBUG" not in release.env
    assert release.env  # the others stay


def test_the_documented_house_engine_is_one(write_file: WriteFile) -> None:
    """People copy it from there."""
    text = (Path(__file__).parents[2] / "docs/releases.md").read_text()
    [example] = [part for part in text.split("```yaml\n") if "kind: custom" in part]
    release, problems = check_release(write_file(example.partition("```")[0], name="house.yaml"))
    assert problems == []
    assert release is not None
    assert (release.engine.kind, release.args, release.env) == ("custom", (), {})
