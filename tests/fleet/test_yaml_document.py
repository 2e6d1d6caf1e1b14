"""YAML with lines, and without its traps."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet.yaml_document import (
    MAX_FILE_BYTES,
    NodePath,
    parse_content,
    parse_document,
    read_document,
)

KEYS = st.text("abcdefgh", min_size=1, max_size=4)
SCALARS = st.one_of(st.integers(-999, 999), st.booleans(), st.text("xyz", min_size=1, max_size=5))
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(KEYS, inner, min_size=1, max_size=3)
        ),
        max_leaves=12,
    ),
    min_size=1,
    max_size=4,
)


def _leaves(value: object, path: NodePath = ()) -> dict[NodePath, object]:
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return {path: value}
    return {
        at: leaf for key, child in children for at, leaf in _leaves(child, (*path, key)).items()
    }


@given(TREES)
def test_data_is_what_a_plain_loader_reads(tree: dict[str, object]) -> None:
    """Our reader adds lines and refuses traps; it must not change ordinary data."""
    text = yaml.safe_dump(tree)
    assert parse_document(text, "f").data == yaml.safe_load(text)


@given(TREES)
def test_the_line_of_a_leaf_holds_the_leaf(tree: dict[str, object]) -> None:
    """A message that points one line off is worse than none."""
    text = yaml.safe_dump(tree, default_flow_style=False)
    document = parse_document(text, "f")
    lines = text.splitlines()
    for path, leaf in _leaves(tree).items():
        line = document.line(path)
        assert line is not None
        assert str(leaf).lower() in lines[line - 1].lower()


@given(st.text(max_size=200))
def test_no_text_escapes_as_an_exception(text: str) -> None:
    """Whatever a file holds, the user gets data or a problem, never a traceback."""
    document = parse_document(text, "f")
    assert document.problems or isinstance(document.data, dict)


@given(st.binary(max_size=200))
def test_no_bytes_escape_as_an_exception(content: bytes) -> None:
    """Binary files, wrong encodings and cut-off files are problems, too."""
    document = parse_content(content, "f")
    assert document.problems or isinstance(document.data, dict)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("off", "off"),
        ("no", "no"),
        ("15:00", "15:00"),
        ("010", "010"),
        ("2026-11-29", "2026-11-29"),
        ("1_000", "1_000"),
        ("true", True),
        ("18", 18),
        ("0.92", 0.92),
        ("1e-06", 1e-06),
        ("1E3", 1000.0),
        ("1e999", "1e999"),
        ("9f62e4", "9f62e4"),
        ("~", None),
        ("'18'", "18"),
    ],
)
def test_plain_words_follow_yaml_1_2(word: str, value: object) -> None:
    """YAML 1.1 reads `off` as False, `15:00` as 900 and `010` as 8."""
    assert parse_document(f"key: {word}", "f").data == {"key": value}


def test_a_duplicate_key_keeps_the_first_value() -> None:
    """The value is still checked, so that its own fault shows in the same run."""
    document = parse_document("a: 1\nb: 2\na: 3\n", "f")
    assert document.data == {"a": 1, "b": 2}
    assert [problem.line for problem in document.problems] == [3]


def test_every_duplicate_is_reported() -> None:
    """One per run would cost one run each."""
    document = parse_document("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3\n", "f")
    assert [(problem.line, problem.path) for problem in document.problems] == [
        (2, "a"),
        (3, "b.c"),
        (4, "a"),
    ]


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 40, "a: " + "[" * 5000, "{a: " * 40 + "1" + "}" * 40]
)
def test_deep_nesting_is_refused_without_recursion_to_the_end(text: str) -> None:
    """A few kilobytes of brackets must not end in a stack overflow."""
    (problem,) = parse_document(text, "f").problems
    assert "deep" in problem.what or "depth" in problem.what


def test_an_alias_bomb_is_not_expanded() -> None:
    """Nine lines would become a billion strings."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    document = parse_document("\n".join(["l0: &l0 [x]", *levels]), "f")
    assert document.data["l9"] == [None] * 10  # type: ignore[index]
    assert len(document.problems) == 10 + 90


@pytest.mark.parametrize(
    ("content", "what", "line"),
    [
        (b"a: 1\nb: caf\xe9\n", "byte 0xe9 is not UTF-8", 2),
        (b"a: 1\nb: \x00\n", "the file holds a NUL byte", 2),
        (b"a: 1\nb: \x07\n", "invalid YAML: the character U+0007 is not allowed", 2),
        (b"", "the file is empty", 1),
        (b"just words", "the top of the file is not a mapping", 1),
    ],
)
def test_unusable_content_is_named(tmp_path: Path, content: bytes, what: str, line: int) -> None:
    """The line lets an editor jump to a byte that it does not show."""
    path = tmp_path / "fleet.yaml"
    path.write_bytes(content)
    (problem,) = read_document(path).problems
    assert (problem.what, problem.line) == (what, line)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    """Windows editors write one."""
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(path).data == {"a": 1}


def test_a_file_larger_than_the_limit_is_not_parsed(tmp_path: Path) -> None:
    """A wrong path (a disk image, a device) must not fill the memory."""
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"a" * (MAX_FILE_BYTES + 1))
    (problem,) = read_document(path).problems
    assert problem.what == "the file is larger than 1 MiB"


@pytest.mark.parametrize("name", [".", "none.yaml", "x" * 300, "a\0b"])
def test_an_unreadable_file_is_a_problem(tmp_path: Path, name: str) -> None:
    """A folder, a missing file, a name too long: said, not thrown."""
    (problem,) = read_document(tmp_path / name).problems
    assert problem.what.startswith("cannot be read: ")
