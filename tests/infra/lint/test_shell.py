"""Scripts as a shell reads them: tests/cases/shell.yaml, and a real shell on the same scripts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.lint.shell import assignments, simple_commands

FOLDER = Path(__file__).parents[2] / "cases"
CASES: list[dict[str, Any]] = yaml.load(
    (FOLDER / "shell.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)
BASH = shutil.which("bash")
SHOW = f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"
HOSTILE_BYTES = 200_000
HOSTILE_S = 10.0


def name_of(case: dict[str, Any]) -> str:
    return str(case["name"])


def known(case: dict[str, Any]) -> bool:
    """Say whether a real shell must print what is stated."""
    words = "".join(word for words in case["words"] for word in words)
    return case.get("shell", "${" not in words) and bool(case["words"]) and "@" not in words


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_words_of_a_script(case: dict[str, Any]) -> None:
    """A word that is read wrong is a finding about something that nobody wrote."""
    found = [
        (list(simple.words[simple.words.index("show") + 1 :]), dict(simple.exported))
        for simple in simple_commands(case["script"], case.get("env", {}))
        if "show" in simple.words
    ]
    assert [words for words, _ in found] == case["words"]
    assert all(exported == case.get("exports", {}) for _, exported in found)


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("case", [case for case in CASES if known(case)], ids=name_of)
def test_a_real_shell_reads_the_same(case: dict[str, Any], tmp_path: Path) -> None:
    """What we expect of a script must be what happens."""
    show = tmp_path / "show"
    show.write_text(SHOW)
    show.chmod(0o755)
    env = {name: text for name, text in case.get("env", {}).items() if text is not None}
    path = f"{tmp_path}:/usr/bin:/bin"
    run = subprocess.run(
        [str(BASH), "-c", case["script"]],
        env={**env, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [json.loads(line) for line in run.stdout.splitlines()] == case["words"]


def test_only_assignments_before_a_program_are_its_variables() -> None:
    """`--a=1` is an argument, and `A+=1` needs what nobody knows."""
    words = ["env", "A=1", "B=x y", "C+=2", "--d=3", "E="]
    assert list(assignments(words)) == [("A", "1"), ("B", "x y"), ("E", "")]


@pytest.mark.parametrize(
    "part",
    ["$(", "'", '"', "`", "$((", '"$(a)', "<<E\n", ">", "> ", "\\", "#", "A=(", "${", "(", "$A "],
)
def test_a_hostile_script_takes_no_longer_than_its_size_allows(part: str) -> None:
    """A pattern that tries every combination would never come back."""
    script = part * (HOSTILE_BYTES // len(part))
    started = time.process_time()
    for simple in simple_commands(script, {"A": "b"}):
        assert simple.words is not None
    assert time.process_time() - started < HOSTILE_S
