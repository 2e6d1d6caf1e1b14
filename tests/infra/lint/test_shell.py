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

from infra.lint.shell import MAX_SCRIPT_CHARS, assignments, simple_commands
from infra.lint.variables import MAX_COMMAND_CHARS

FOLDER = Path(__file__).parents[2] / "cases"
CASES: list[dict[str, Any]] = yaml.load(
    (FOLDER / "shell.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)
BASH = shutil.which("bash")
SHOW = f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"
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
    script = part * (MAX_SCRIPT_CHARS // len(part) - 1)
    started = time.process_time()
    for simple in simple_commands(script, {"A": "b"}):
        assert simple.words is not None
    assert time.process_time() - started < HOSTILE_S


def test_a_script_that_no_kernel_would_start_is_not_read() -> None:
    """16 MiB of it would take half a minute."""
    script = "show a " + "b" * MAX_SCRIPT_CHARS
    assert list(simple_commands(script, {})) == []


@pytest.mark.parametrize("form", ["$A", '"$A"', "$(A)", "${A}x"])
def test_variables_do_not_fill_the_memory(form: str) -> None:
    """100,000 characters, 10,000 times: what Linux would not start is not built either."""
    script = f"show {f'{form} ' * 10_000}"
    words = [
        word for simple in simple_commands(script, {"A": "b" * 100_000}) for word in simple.words
    ]
    assert len(words) == 10_001
    assert sum(map(len, words)) < 4 * MAX_COMMAND_CHARS  # each step has its own limit
