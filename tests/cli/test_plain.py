"""What other people wrote cannot drive the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main
from cli.output import print_facts, print_line, print_table
from cli.plain import plain

EVIL = "a\x1b[31m\x9b1m\u202eb\nerror: forged\rc"
FLEET = Path("fleets/demo.yaml")


@pytest.mark.parametrize("text", ["übergröße", "日本語", "a b", "-> 'x' \\ é"])
def test_letters_of_every_language_stay(text: str) -> None:
    """Names of people and places are not ASCII."""
    assert plain(text) == text


def test_what_is_not_printable_is_escaped() -> None:
    """Colours, cursor moves, reversed text and new lines."""
    assert plain(EVIL) == "a\\x1b[31m\\x9b1m\\u202eb\\nerror: forged\\rc"


def test_results_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, facts and lines all show values of files."""
    print_table(("name",), [(EVIL,)])
    print_facts([("name", EVIL)])
    print_line(EVIL)
    shown = capsys.readouterr().out
    assert shown.count("\\x1b[31m") == 3
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("error")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vllm-tp8-dcp8", '"./a\\x1b[31mb\\nerror: forged.yaml"'),
        ("name: demo", 'name: "a\\nerror: forged"'),
        ("mode: kv", '"a\\x1b[2J\\nerror: forged": kv'),
    ],
)
def test_an_error_is_one_line_whatever_it_is_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    """Whoever reads a log counts the lines that start with `error:`."""
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET.read_text().replace(old, new))
    assert main(["plan", str(path)]) == 3
    said = capsys.readouterr().err
    assert "\x1b" not in said
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    assert errors
    assert all(line.startswith(f"error: {tmp_path}") for line in errors)


def test_a_wrong_option_is_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A script may have taken it from a file."""
    assert main(["plan", "x.yaml", "--a\x1b[31m"]) == 3
    assert "\x1b" not in capsys.readouterr().err
