"""Files, folders and streams of documents, good and hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from infra.lint import reading
from infra.lint.manifest import Manifest
from infra.lint.reading import parse_manifests, read_manifests
from infra.lint.yaml_stream import MAX_ALIASED_NODES, MAX_DEPTH, parse_stream, resolve

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
  containers:
    - name: main
      image: x
"""


def parsed(text: str) -> list[Manifest]:
    manifests, problems = parse_manifests(text.encode(), "f.yaml")
    assert problems == []
    return manifests


def refusal(text: str | bytes) -> str:
    content = text if isinstance(text, bytes) else text.encode()
    manifests, (problem,) = parse_manifests(content, "f.yaml")
    assert manifests == []
    return str(problem)


def test_each_document_knows_its_lines() -> None:
    """An editor jumps there."""
    second = parsed(f"# a comment\n---\n{POD}---\n---\n{POD}...\n")[1]
    image = ("spec", "containers", 0, "image")
    assert (second.lines[()], second.line(image), second.line((*image, "x"))) == (13, 20, 20)


def test_a_list_is_its_items() -> None:
    """`kubectl get -o yaml` prints lists; a rule looks at objects."""
    items = "".join(
        f"  - {line}" if not n else f"    {line}" for n, line in enumerate(POD.splitlines(True))
    )
    first, second = parsed(f"apiVersion: v1\nkind: List\nitems:\n{items}{items}")
    assert (first.data, second.data) == (parsed(POD)[0].data, parsed(POD)[0].data)
    assert (first.line(("spec",)), second.line(("spec",)), second.line(())) == (8, 16, 12)


def test_items_of_a_typed_list_have_its_type() -> None:
    """The API server writes the type once, above."""
    (pod,) = parsed("{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}]}")
    assert (pod.kind, pod.api_version, pod.name) == ("Pod", "v1", "a")


def test_a_duplicate_key_is_noted_and_the_last_one_counts() -> None:
    """As kubectl does it, silently; a rule tells."""
    (pod,) = parsed(POD + "      image: y\n")
    image = ("spec", "containers", 0, "image")
    assert (pod.at(*image), pod.duplicates) == ("y", ((image, 9),))


def test_anchors_and_merge_keys_are_filled_in() -> None:
    """The explicit key is stronger, and the first of several bases."""
    text = "x: [&a {k: 1, l: 1}, &b {k: 2, m: 2}]\ny:\n  <<: [*a, *b]\n  l: 3\nz: *a\n"
    (pod,) = parsed("apiVersion: v1\nkind: X\n" + text)
    assert (pod.data["y"], pod.data["z"]) == ({"k": 1, "l": 3, "m": 2}, {"k": 1, "l": 1})
    assert (pod.line(("y", "m")), pod.line(("z", "k"))) == (5, 7)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("010", 8),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-7", -7),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2026-11-30", "2026-11-30"),
        ("y", "y"),
        ("1.6.1", "1.6.1"),
        ("-", "-"),
        ("9" * 400, "9" * 400),
    ],
)
def test_plain_words_mean_what_kubectl_takes_them_for(word: str, value: object) -> None:
    """An environment variable `yes` reaches the API server as a boolean, and is refused."""
    found = resolve(word)
    assert (found, type(found)) == (value, type(value))


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    """A few lines can stand for billions of values."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    text = "\n".join(["apiVersion: v1", "kind: X", "l0: &l0 [x]", *levels])
    assert f"aliases expand to more than {MAX_ALIASED_NODES:,} values" in refusal(text)


def test_a_long_text_behind_many_aliases_is_refused() -> None:
    """One megabyte, 60,000 times: sixty gigabytes for whoever writes it out."""
    aliases = "".join(f"  b{number}: *a\n" for number in range(60_000))
    text = f"apiVersion: v1\nkind: X\ndata:\n  a: &a {'x' * 1_000_000}\n{aliases}"
    assert f"aliases expand to more than {MAX_ALIASED_NODES:,} values" in refusal(text)


def test_a_chain_of_aliases_is_as_deep_as_what_it_stands_for() -> None:
    """Else whoever walks the data runs out of stack."""
    chain = [f"l{n}: &l{n} [*l{n - 1}]" for n in range(1, MAX_DEPTH + 1)]
    text = "\n".join(["apiVersion: v1", "kind: X", "l0: &l0 [x]", *chain])
    assert f"f.yaml:{MAX_DEPTH + 3}: the YAML nests deeper" in refusal(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: b: c\n", "f.yaml:1: invalid YAML: mapping values are not allowed"),
        ("[" * 200, "f.yaml:1: the YAML nests deeper than 100 levels."),
        ("", "f.yaml:1: the file is empty."),
        ("# only\n---\n---\n", "f.yaml:1: the file is empty."),
        (b"\x7fELF\xff\xfe", "f.yaml:1: byte 0xff is not UTF-8."),
        ("a: \0", "f.yaml:1: the file holds a NUL byte."),
        ("just words\n", "f.yaml:1: this document is no mapping."),
        ("- a\n", "f.yaml:1: this document is no mapping."),
        ("apiVersion: v1\nkind: List\nitems: 5\n", "f.yaml:3: the items of this List are no"),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "f.yaml:3: the items of this List are no"),
        ("replicas: 1\n", "f.yaml:1: this document has no apiVersion and no kind,"),
        ("apiVersion: v1\nkind: 5\n", "f.yaml:1: this document has no kind,"),
        ("apiVersion: v1\nkind: List\nitems: [1]\n", "f.yaml:3: this document is no mapping."),
        ("apiVersion: k3fleet/v1\nname: x\n", "f.yaml:1: this is a fleet file of k3fleet"),
        ("a: &a [*a]\n", "f.yaml:1: the alias *a stands before the end of its anchor."),
        ("a: *b\n", "f.yaml:1: the alias *b stands before the end of its anchor."),
        ("a: !Ref b\n", "f.yaml:1: kubectl knows no tag !Ref."),
        ("<<: 5\n", "f.yaml:1: << merges something that is no mapping."),
        ("[a]: b\n", "f.yaml:1: a key is not plain text."),
        ("a: {{ .Values.x }}\n", "f.yaml:1: this looks like a Helm template."),
        ("a: 1\n{{- if .x }}\nb: 1\n{{- end }}\n", "f.yaml:2: this looks like a Helm template."),
        ("# {{\na: x-{{ .Release.Name }}\n", "f.yaml:2: this looks like a Helm template."),
    ],
)
def test_what_is_no_manifest_gets_one_line(content: str | bytes, said: str) -> None:
    """With its place, and with what to do."""
    assert refusal(content).startswith(said)


def test_an_empty_list_is_nothing_to_judge() -> None:
    """`kubectl get -o yaml` prints one where nothing is."""
    assert parsed("apiVersion: v1\nkind: List\nitems: []\n") == []
    assert parsed("apiVersion: v1\nkind: List\n") == []


@pytest.mark.parametrize(
    "text",
    [
        'x: "{{ template }}"',
        "x: '{{ .Values.x }} {{- if y }}'",
        'receivers: [{text: "{{ template \\"slack.text\\" . }}"}]',
        "x: |\n  {{- if .Values.x }}\n  a\n  {{- end }}\n",
    ],
)
def test_a_quoted_template_is_text(text: str) -> None:
    """Alertmanager's templates have the words of Helm's."""
    (found,) = parsed(f"apiVersion: v1\nkind: X\n{text}\n")
    assert "{{" in str(found.data)


def test_braces_inside_a_text_are_no_helm_template() -> None:
    """Alerts and chat templates are full of them."""
    text = "summary: '{{ $labels.pod }} is down'\ntemplate: |\n  {{ .Values.x }}\n"
    (rule,) = parsed("apiVersion: v1\nkind: X\n" + text)
    assert rule.data["template"] == "{{ .Values.x }}\n"


def test_a_folder_gives_its_manifests_in_order(tmp_path: Path) -> None:
    """Sorted, and without what is hidden or no manifest."""
    for name in ("b/2.yml", "b/1.yaml", "a.json", ".git/x.yaml", "notes.md", ".k3fleet-render"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"apiVersion": "v1", "kind": "X"}')
    found = read_manifests([tmp_path, tmp_path / "a.json"]).manifests
    assert [item.file for item in found] == [
        str(tmp_path / name) for name in ("a.json", "b/1.yaml", "b/2.yml")
    ]


def refused(*paths: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_manifests(paths)
    return str(caught.value).splitlines()


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    """One round of corrections."""
    (tmp_path / "good.yaml").write_text(POD)
    (tmp_path / "bad.yaml").write_text("a: b: c\n")
    (tmp_path / "empty.yaml").touch()
    lines = refused(tmp_path, tmp_path / "empty.yaml", tmp_path / "none.yaml")
    assert [line.split(": ")[0].removeprefix(f"{tmp_path}/") for line in lines] == [
        "bad.yaml:1",
        "empty.yaml:1",
        "none.yaml",
    ]


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    """A wrong path must not look clean."""
    (line,) = refused(tmp_path)
    assert "the folder holds no manifest (.yaml, .yml, .json)" in line


def test_a_folder_with_10_000_files_is_refused_unread(tmp_path: Path) -> None:
    """One line instead of minutes."""
    for number in range(reading.MAX_FILES + 1):
        (tmp_path / f"{number}.yaml").touch()
    (line,) = refused(tmp_path)
    assert "there are more than 8,000 files" in line


def test_100_mb_are_not_read_whole(tmp_path: Path) -> None:
    """The file here has no content on disk; reading it would take as much memory."""
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100 * 1000**2)
    (line,) = refused(path)
    assert "the file is larger than 16 MiB" in line


def test_many_files_that_are_too_much_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is small enough by itself."""
    monkeypatch.setattr(reading, "MAX_TOTAL_BYTES", 3 * len(POD))
    for number in range(5):
        (tmp_path / f"{number}.yaml").write_text(POD)
    (line,) = refused(tmp_path)
    assert line.startswith(f"{tmp_path}/3.yaml: with this file there are more than 0 MiB to read")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """A checkout from elsewhere must not make us print other files' content."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.yaml").write_text(POD)
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (folder / "pod.yaml").write_text(POD)
    (pod,), (leaves,) = read_manifests([folder])
    assert pod.file == str(folder / "pod.yaml")
    assert "a link that leaves the folder, skipped" in str(leaves)


def test_what_is_no_file_hides_nothing_of_a_folder(tmp_path: Path) -> None:
    """A dead link or a pipe of some editor; a pipe would be waited for."""
    (tmp_path / "dead.yaml").symlink_to(tmp_path / "nowhere.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "pod.yaml").write_text(POD)
    (pod,), notices = read_manifests([tmp_path])
    assert (pod.kind, len(notices)) == ("Pod", 3)
    assert all("skipped" in str(notice) for notice in notices)


OTHERS = {
    "values.yaml": "replicas: 1\n",
    "Chart.yaml": "apiVersion: v2\nname: x\n",
    "kustomization.yaml": "resources: [a.yaml]\n",
    "ci.yml": "- run: make\n",
    "empty.yaml": "",
    "fleet.yaml": "apiVersion: k3fleet/v1\nname: x\n",
    "package.json": '{"name": "x"}',
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_of_a_folder_are_skipped_and_refused_by_name(tmp_path: Path, name: str) -> None:
    """A repository holds more than manifests; who names a file means it."""
    other = tmp_path / name
    other.write_text(OTHERS[name])
    (tmp_path / "pod.yaml").write_text(POD)
    manifests, (notice,) = read_manifests([tmp_path])
    assert [item.kind for item in manifests] == ["Pod"]
    assert str(notice).startswith(f"{other}: no manifest, skipped")
    assert len(refused(tmp_path, other)) == 1


def test_an_object_that_lost_its_kind_is_refused_in_a_folder_too(tmp_path: Path) -> None:
    """It was meant to be applied."""
    (tmp_path / "pod.yaml").write_text(POD.replace("kind: Pod\n", ""))
    (line,) = refused(tmp_path)
    assert "this document has no kind" in line


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    """A wrong path must not look clean."""
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    (line,) = refused(tmp_path)
    assert "none of its files is a manifest (1 skipped)" in line


def test_json_is_read_with_lines(tmp_path: Path) -> None:
    """Tabs are fine in JSON."""
    path = tmp_path / "a.json"
    path.write_text('{\n\t"apiVersion": "v1",\n\t"kind": "X",\n\t"spec": {"a": true}\n}\n')
    ((found,), _) = read_manifests([path])
    assert (found.at("spec", "a"), found.line(("spec", "a"))) == (True, 4)


def test_json_may_write_a_character_as_a_pair(tmp_path: Path) -> None:
    """Python's own writer does; a backslash before it makes it something else."""
    path = tmp_path / "a.json"
    names = {"a": "\U0001f600", "b": "\\ud83d\\ude00"}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "X", "data": names}))
    assert "\\ud83d" in path.read_text()
    ((found,), _) = read_manifests([path])
    assert found.data["data"] == names


def test_json_that_is_no_yaml_is_read_in_any_file() -> None:
    """A key of 2,000 characters, half a pair, a colon on its own line; twice is still twice."""
    long = "k" * 2000
    text = '{"apiVersion": "v1",\n "kind"\n : "X", "n": [-1.5e3, true],\n "a": "\\/ \\ud83d"'
    text += f',\n "{long}": 1,\n "{long}": 2}}'
    (found,) = parsed(text)
    assert (found.data["n"], found.data["a"], found.data[long]) == ([-1500.0, True], "/ \ufffd", 2)
    assert (found.duplicates, found.line(("n", 1))) == ((((long,), 6),), 3)


def test_json_nests_no_deeper_than_yaml() -> None:
    """Else whoever walks the data runs out of stack."""
    text = '{"apiVersion": "v1", "kind": "X", "a":\n' + "[" * 5000 + "]" * 5000 + "}"
    assert refusal(text).startswith("f.yaml:2: the YAML nests deeper than 100 levels")


def test_a_stream_may_be_empty() -> None:
    """Nothing in, nothing out."""
    assert parse_stream("", "f") == []
