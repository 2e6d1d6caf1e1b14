"""Bad input through the command line: a line with its place and exit code 3, or findings and 1.

Never a traceback (exit code 70), and never minutes.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import main

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: k3}
spec:
  containers:
    - name: main
      image: vllm/vllm-openai:v0.29.0
      command: [vllm, serve, moonshotai/Kimi-K3]
"""
HEAD = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"


def lint(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    """Return the exit code, and what is printed."""
    code = main(["lint", str(path), *more])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize(
    "more",
    [
        '      args: "--seed 1"',
        "      args: [1, 2.5, true, null, [x], {a: b}, --seed, .nan, 2026-01-01]",
        "      env: {}",
        "      env: {A: b}",
        "      env: [{name: 1, value: 2}, 5, null, {name: A, value: [x]}, {name: B, value: 1e400}]",
        '      ports: [-1, {containerPort: -5}, {containerPort: "x"}, {containerPort: .nan}]',
        "      resources: {limits: [1], requests: {nvidia.com/gpu: {}, cpu: .nan}, claims: {a: b}}",
        "      livenessProbe: {httpGet: text, failureThreshold: .inf, periodSeconds: -3}",
        "      volumeMounts: [{name: [a], subPath: b}, {name: {a: b}, mountPath: {}}]",
        "      image: [a]",
        '      image: "::@@::/"',
        "      command:",
        f'      args: ["--speculative-config", "{"[" * 100_000}"]',
        f'      args: ["{"x" * 1_000_000}"]',
        "  volumes: [1, {name: [a]}, {name: {a: b}, configMap: [x]}]",
        "  tolerations: [a, {value: [x]}]\n  nodeSelector: [x]\n  affinity: 5",
        "  resourceClaims: [x, {name: [a]}, {name: {a: b}}]\n  serviceAccountName: {a: b}",
    ],
)
@pytest.mark.parametrize("output", ["table", "json", "sarif"])
def test_a_pod_with_something_wrong_has_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, output: str
) -> None:
    """Whatever stands there: exit code 1, on stdout."""
    path = tmp_path / "pod.yaml"
    path.write_text(POD + more + "\n")
    code, out, err = lint(path, capsys, "-o", output)
    assert (code, err) == (1, "")
    assert out


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\nmetadata: [a]\nspec: text\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: null}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [1, null, [], {}]}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {1: 2, null: null}}\ndata: {1: 2}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {a: 1, b: [x], c: 2026-01-01}}\n",
        f"{HEAD}spec: {{replicas: .nan, minReadySeconds: -.inf}}\n",
        f"{HEAD}spec: {{replicas: {'9' * 5000}, x: 0x{'f' * 5000}, y: 1e999999}}\n",
        f"{HEAD}spec: {{replicas: -5}}\n",
        f"{HEAD}spec: {'{a: ' * 90}1{'}' * 90}\n",
        f"{HEAD}spec: {{a: 1, a: 2, b: [{{c: 1, c: 2}}]}}\n",
        'apiVersion: v1\nkind: Pod\nmetadata: {name: "\\e[31m\\n\\u202e"}\n"\\e[2J\\nkey": x\n',
        "apiVersion: apps/v1\nkind: ../../etc/passwd\n",
    ],
)
def test_an_object_with_something_wrong_has_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Nothing of it reaches the terminal raw."""
    path = tmp_path / "object.yaml"
    path.write_text(text)
    code, out, err = lint(path, capsys)
    assert (code, err) == (1, "")
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: b: c: [}\n", ":1: invalid YAML"),
        (b"", ":1: the file is empty."),
        (b"  \n# nothing\n", ":1: the file is empty."),
        (b"{{- if .Values.x }}\napiVersion: v1\n{{- end }}\n", ":1: this looks like a Helm templ"),
        (POD.encode("utf-16"), ":1: byte 0xff is not UTF-8."),
        (POD.encode("utf-16-be"), ":1: the file holds a NUL byte."),
        (POD.encode("utf-32"), ":1: byte 0xff is not UTF-8."),
        (b"\x7fELF\x02\x01\x01\0\xd0", ":1: byte 0xd0 is not UTF-8."),
        (b"[" * 10_000, ":1: the YAML nests deeper than 100 levels."),
        (b"{a: " * 10_000, ":1: the YAML nests deeper than 100 levels."),
        (b"- " * 10_000, ":1: the YAML nests deeper than 100 levels."),
        (b"? {a: b}\n: c\n", ":1: a key is not plain text."),
        (b"apiVersion: v1\nkind: List\nitems: 5\n", ":3: the items of this List are no list."),
    ],
)
def test_a_file_that_is_no_manifest_exits_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    """One line on stderr, nothing on stdout."""
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    code, out, err = lint(path, capsys)
    assert (code, out) == (3, "")
    assert err.startswith(f"error: {path}{said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")]
)
def test_marks_and_line_ends_of_windows_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[str], str]
) -> None:
    """Editors put them there."""
    path = tmp_path / "pod.yaml"
    path.write_bytes(POD.encode())
    plain = lint(path, capsys)
    path.write_bytes(change(POD).encode())
    assert lint(path, capsys) == plain


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _nothing(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


@pytest.mark.parametrize("make", [_fifo, _socket, _loop, _zeros, _nothing])
@pytest.mark.parametrize("in_folder", [False, True])
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], None],
    in_folder: bool,
) -> None:
    """A pipe never ends, and neither does /dev/zero."""
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path("x.yaml"))
    code, out, err = lint(Path("." if in_folder else "x.yaml"), capsys)
    assert (code, out, err.count("\n")) == (3, "", 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what to look at."""
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    path.chmod(0)
    code, _, err = lint(path, capsys)
    assert (code, "Check the path and its permissions" in err) == (3, True)


def test_a_folder_that_links_to_itself_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links to folders are not followed."""
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "again").symlink_to(tmp_path)
    code, out, _ = lint(tmp_path, capsys)
    assert (code, out.splitlines()[-1].partition(":")[0]) == (1, "1 file, 1 object")


def test_what_is_skipped_in_a_folder_is_said_beside_the_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that reads the JSON gets nothing else, and the findings are all there."""
    (tmp_path / "pod.yaml").write_text(POD + "  image: twice\n")
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    code, out, err = lint(tmp_path, capsys, "-o", "json")
    found = {item["file"] for item in json.loads(out)["findings"]}
    assert (code, found) == (1, {f"{tmp_path}/pod.yaml"})
    assert err.startswith(f"note: {tmp_path}/values.yaml: no manifest, skipped.")
