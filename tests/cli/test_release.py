"""`k3fleet release`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import main
from cli.release import release
from fleet.load import load_release
from fleet.presets import PRESET_FOLDERS, preset_names
from fleet.release import release_id

DIGEST = "sha256:" + "0123456789abcdef" * 4
PIN = ("--image", f"vllm:1@{DIGEST}", "--set", f"dynamo.image=dynamo:1@{DIGEST}")
PRESET = "vllm-tp8-dcp8"
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `k3fleet release …` in an empty folder; return what it prints, or its errors."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str, code: int = 0) -> str:
        assert main(["release", *words]) == code
        printed = capsys.readouterr()
        assert (printed.out if code else printed.err) == ""
        return printed.err if code else printed.out

    return call


@pytest.fixture
def frozen(run: Run) -> Path:
    """Freeze the preset as release `mine`."""
    made = json.loads(run("new", "mine", "--from", PRESET, *PIN, "-o", "json"))
    return Path(made["file"])


@pytest.mark.parametrize("name", sorted(release.commands))
def test_every_command_has_help_with_an_example(name: str, run: Run) -> None:
    """Most people copy the example and change one word."""
    assert "Example:" in run(name, "--help")


def test_list_shows_every_preset_and_every_file(run: Run, frozen: Path) -> None:
    """Whoever plans a rollout chooses from it."""
    rows = json.loads(run("list", "-o", "json"))
    sources = {row["id"]: row["from"] for row in rows}
    assert len(rows) == len(preset_names("release")) + 1
    assert sources[release_id(load_release(PRESET, beside=frozen))] == "preset"
    assert sources[frozen.stem] == f"releases/{frozen.name}"


def test_list_of_a_folder_that_is_not_there_is_refused(run: Run) -> None:
    """A typing error must not look like an empty folder."""
    assert run("list", "relases", code=3).startswith("error: relases: is no folder.")


@pytest.mark.parametrize("preset", preset_names("release"))
def test_what_show_prints_is_the_same_release_without_extends(run: Run, preset: str) -> None:
    """A reader, or a file made of it, needs no other file."""
    text = run("show", preset)
    Path("copy.yaml").write_text(text)
    identity = release_id(load_release("copy.yaml", beside=Path("here")))
    assert text.splitlines()[0] == f"# {identity}"
    assert identity == release_id(load_release(preset, beside=Path("here")))


def test_show_gives_the_commands_of_every_job(run: Run) -> None:
    """What an SRE compares with `ps` on a node."""
    pool = "disaggregation: {prefill: {replicas: 2, args: [--eager]}, decode: {replicas: 1}}\n"
    Path("pd.yaml").write_text(f"extends: {PRESET}\nname: pd\n{pool}")
    shown = json.loads(run("show", "pd.yaml", "-o", "json"))
    assert shown["roles"] == ["prefill", "prefill", "decode"]
    jobs = [(line["role"], line["process"]) for line in shown["commands"]]
    assert jobs == [(job, rank) for job in ("prefill", "decode") for rank in ("leader", "worker")]
    assert ["--eager" in line["command"] for line in shown["commands"]] == [
        True,
        True,
        False,
        False,
    ]


def test_new_writes_a_flat_file_called_by_its_id(run: Run, frozen: Path) -> None:
    """The file is all that is needed to run it again in a year."""
    first, *lines = frozen.read_text().splitlines()
    assert first.startswith(f"# {frozen.stem}: made from {PRESET} by")
    assert not [line for line in lines if line.startswith(("extends", "#"))]
    assert frozen.stem in run("verify", str(frozen))


def test_new_leaves_nothing_else_behind(frozen: Path) -> None:
    """A folder of releases is listed and verified as a whole."""
    assert [path.name for path in frozen.parent.iterdir()] == [frozen.name]


def test_the_same_release_again_is_no_change(run: Run, frozen: Path) -> None:
    """A script may make its release at every run."""
    before = frozen.stat().st_mtime_ns
    assert run("new", "mine", "--from", PRESET, *PIN).startswith(f"{frozen}: unchanged")
    assert frozen.stat().st_mtime_ns == before


def test_new_does_not_replace_an_edited_file(run: Run, frozen: Path) -> None:
    """The edit may be what runs somewhere; a person has to look."""
    edited = frozen.read_text().replace("max_num_seqs: 256", "max_num_seqs: 8")
    frozen.write_text(edited)
    said = run("new", "mine", "--from", PRESET, *PIN, code=3)
    assert "Do not edit a frozen release" in said
    assert frozen.read_text() == edited


def test_new_does_not_build_on_an_edited_file(run: Run, frozen: Path) -> None:
    """Its author believes to start from what the name says."""
    frozen.write_text(frozen.read_text().replace("max_num_seqs: 256", "max_num_seqs: 8"))
    assert "Do not edit" in run("new", "next", "--from", str(frozen), code=3)


def test_settings_change_values_flags_and_text(run: Run) -> None:
    """Quotes for a version or a variable would get lost in the shell."""
    run(
        *("new", "mine", "--from", PRESET, *PIN, "--out", "out"),
        *("--set", "max_num_seqs=64", "--set", "dynamo.version=1.7", "--set", "env.NEW=1"),
        *("--set", "args=[--stream-interval=20]", "--set", "drain_s=20m"),
    )
    (path,) = Path("out").iterdir()
    made = load_release(str(path.absolute()), beside=path)
    assert (made.max_num_seqs, made.dynamo.version, made.drain_s) == (64, "1.7", 1200.0)
    assert made.env["NEW"] == "1"
    assert [word for word in made.args if "stream" in word] == ["--stream-interval=20"]


def test_every_wrong_setting_is_named_at_once(run: Run) -> None:
    """One round of corrections, as with a file."""
    wrong = ("--set", "max_num_seq=1", "--set", "block_size=big")
    errors = run("new", "Mine", "--from", PRESET, *PIN, *wrong, code=3).splitlines()[:-1]
    assert sorted(line.partition(". ")[0] for line in errors) == [
        "error: --set block_size=big: block_size: expected a whole number, found 'big'",
        "error: --set max_num_seq=1: max_num_seq: unknown key",
        "error: NAME: name: 'Mine' is not a DNS label",
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("max_num_seqs", "is not key.path=value"),
        ("=1", "is not key.path=value"),
        ("env..A=1", "is not key.path=value"),
        ("name=other", "name is not set here"),
        ("extends=other", "extends is not set here"),
        ("args=[a", "is not a YAML value"),
        ("nodes=1\nname: x", "is not a YAML value"),
        ("nodes=&a 1", "is not a YAML value"),
        ("env=1", "expected a mapping, found 1"),
        ("engine.image=vllm:1", "is set twice"),
        ("dynamo.image.x=1", "is set by another option"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(run: Run, wrong: str, said: str) -> None:
    """Each in its own words, and nothing is written."""
    assert said in run("new", "mine", "--from", PRESET, *PIN, "--set", wrong, code=3)
    assert not Path("releases").exists()


def test_images_without_digest_are_refused(run: Run) -> None:
    """A tag can be pushed again; K3 images were."""
    said = run("new", "mine", "--from", PRESET, "--image", "vllm:1", code=3).splitlines()[:-1]
    assert [line.partition(". ")[0].split(": ")[2:] for line in said] == [
        ["engine.image", "the image 'vllm:1' has no digest"],
        ["dynamo.image", "the image 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1' has no digest"],
    ]


def test_a_folder_that_cannot_be_written_is_a_message(run: Run) -> None:
    """The disk is the user's, so no traceback."""
    Path("out").write_text("a file")
    said = run("new", "mine", "--from", PRESET, *PIN, "--out", "out/in", code=4)
    assert said.startswith("error: out/in/mine-")
    assert "Not a directory" in said


def test_diff_names_each_field_with_both_values(run: Run, frozen: Path) -> None:
    """What a reviewer of a rollout reads."""
    Path("b.yaml").write_text(f"extends: {frozen}\nargs: [--stream-interval=9]\nnodes: 4\n")
    found = json.loads(run("diff", str(frozen), "b.yaml", "-o", "json"))
    assert found["changes"] == [
        {"path": "nodes", "old": "2", "new": "4"},
        {
            "path": "args.--stream-interval",
            "old": "--stream-interval=10",
            "new": "--stream-interval=9",
        },
    ]


def test_diff_of_equal_content_says_so(run: Run) -> None:
    """With the id, which is what a cluster shows."""
    Path("b.yaml").write_text(f"# mine\nextends: {PRESET}\n")
    identity = release_id(load_release(PRESET, beside=Path("here")))
    assert run("diff", PRESET, "b.yaml") == f"same release: {identity}\n"


def test_verify_names_what_is_wrong_in_every_file(run: Run, frozen: Path) -> None:
    """A check before a launch must not stop at the first."""
    frozen.write_text(frozen.read_text().replace("nodes: 2", "nodes: 4"))
    (frozen.parent / "other.yaml").write_text(f"extends: {PRESET}\nnodse: 2\n")
    said = run("verify", "releases", code=3).splitlines()
    assert said[0].startswith(f"error: {frozen}: its content is release mine-")
    assert said[1].startswith("error: releases/other.yaml:2: nodse: unknown key.")
    assert said[2] == "2 problems found, nothing was started."


def test_verify_of_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    """A check of an empty folder would pass for ever."""
    assert "no release file is there" in run("verify", str(tmp_path), code=3)


def test_verify_of_a_missing_file_is_refused(run: Run) -> None:
    """A typing error in CI must not pass."""
    assert "none.yaml: cannot be read" in run("verify", "none.yaml", code=3)


def test_show_gives_the_command_of_a_house_engine(run: Run) -> None:
    """It is rolled out like the others, so it is looked at like the others."""
    custom = "{registers: nothing, command: [serve, '--tp={tensor}'], worker_command: [join]}"
    engine = f"engine: {{kind: custom, version: '1', image: 'house@{DIGEST}', custom: {custom}}}\n"
    preset = PRESET_FOLDERS["release"] / f"{PRESET}.yaml"
    rest = preset.read_text().partition("\ndynamo:")[2].partition("\nargs:")[0]
    Path("house.yaml").write_text(f"name: house\n{engine}dynamo:{rest}")
    shown = json.loads(run("show", "house.yaml", "-o", "json"))
    assert [line["command"] for line in shown["commands"]] == [["serve", "--tp=8"], ["join"]]


def test_list_shows_the_good_beside_the_bad(
    run: Run, frozen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dangling link in a folder is no reason to hide all releases."""
    (frozen.parent / "gone.yaml").symlink_to("nowhere.yaml")
    assert main(["release", "list"]) == 3
    printed = capsys.readouterr()
    assert frozen.stem in printed.out
    assert "gone.yaml" in printed.err


@pytest.mark.parametrize("setting", ["args.--stream-interval=20", "args=--foo=1"])
def test_flags_are_set_as_a_list(run: Run, setting: str) -> None:
    """The message has to show the one spelling that a shell and YAML both leave alone."""
    refused = run("new", "mine", "--from", PRESET, *PIN, "--set", setting, code=3)
    assert refused.startswith(f"error: --set {setting}: args is a list of flags.")
    example = refused.split("--set '")[1].split("'")[0]
    run("new", "mine", "--from", PRESET, *PIN, "--set", example)


@pytest.mark.parametrize(
    "setting", ["env.HF_TOKEN=hunter2", "env.A=sk-live-hunter2x", "args=['--api-key=hunter2']"]
)
def test_a_credential_in_an_option_is_not_repeated(run: Run, setting: str) -> None:
    """The message goes into logs, the command line does not."""
    said = run("new", "mine", "--from", "vllm-tp8", "--set", setting, code=3)
    assert f"error: --set {setting.partition('=')[0]}=...: " in said
    assert "hunter2" not in said
