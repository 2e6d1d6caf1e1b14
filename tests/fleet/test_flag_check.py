"""Command lines against what each engine version takes: tests/cases/flags/*.yaml."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.flag_check import Versions, check
from fleet.flag_fault import Fault
from fleet.flag_table import known_versions, load_table
from fleet.flag_target import basis
from fleet.flag_words import Grammar, read_line

CASES = Path(__file__).parents[1] / "cases" / "flags"
FEW = settings(max_examples=25, deadline=None)

pytestmark = pytest.mark.skipif(
    not known_versions("vllm"), reason="the tables of fleet/flag_tables are not there yet"
)


def cases(name: str) -> list[Any]:
    """Read a file of cases."""
    return [
        pytest.param(case, id=case["name"])
        for case in yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    ]


def faults(case: dict[str, Any], words: list[str] | None = None) -> tuple[Fault, ...]:
    """Check the line of a case."""
    line = tuple(words if words is not None else shlex.split(case["line"]))
    env = tuple(case.get("env", {}).items())
    return check(case["program"], line, env, Versions(case.get("engine"), case.get("dynamo")))


def shown(found: tuple[Fault, ...]) -> list[list[str]]:
    """Reduce faults to what a case states."""
    return [[fault.kind, fault.subject] for fault in found]


@pytest.mark.parametrize("case", cases("rejected.yaml"))
def test_a_wrong_line_has_exactly_these_faults(case: dict[str, Any]) -> None:
    """An engine that ends at a flag says so after minutes; a variable never says anything."""
    found = faults(case)
    assert sorted(shown(found)) == sorted(case["faults"])
    if "fix" in case:
        assert [fault.fix for fault in found] == [case["fix"]]


@pytest.mark.parametrize("case", cases("accepted.yaml"))
def test_a_right_line_passes(case: dict[str, Any]) -> None:
    """One wrong alarm, and nobody reads the right ones."""
    assert shown(faults(case)) == case.get("faults", [])


def _reordered(line: str, order: list[int]) -> list[str]:
    """Put the flags of a line into another order, each with its values."""
    words = shlex.split(line)
    starts = [index for index, word in enumerate(words) if word.startswith("-")]
    parts = [words[a:b] for a, b in zip(starts, [*starts[1:], len(words)], strict=True)]
    ranked = sorted(range(len(parts)), key=lambda at: (order[at % len(order)], at))
    return words[: starts[0]] + [word for at in ranked for word in parts[at]]


RIGHT = yaml.safe_load((CASES / "accepted.yaml").read_text(encoding="utf-8"))[:6]


@FEW
@given(
    case=st.sampled_from(RIGHT),
    order=st.lists(st.integers(0, 99), min_size=30, max_size=30),
)
def test_the_order_of_flags_does_not_matter(case: dict[str, Any], order: list[int]) -> None:
    """Releases merge flags of bases and roles in an order of their own."""
    found = shown(faults(case, _reordered(case["line"], order)))
    assert sorted(found) == sorted(case.get("faults", []))


@FEW
@given(words=st.lists(st.text(max_size=12) | st.sampled_from(["--", "-O", "-ac.", "--tp=", "-1"])))
@pytest.mark.parametrize("program", ["vllm", "dynamo.sglang"])
def test_no_line_is_too_strange(program: str, words: list[str]) -> None:
    """Other people's manifests hold everything; a linter that ends in a traceback helps nobody."""
    check(program, tuple(words), (), Versions("0.31.0", "1.6.1"))


@FEW
@given(words=st.lists(st.sampled_from(["--a", "--b=1", "x", "y", "-1", "$X", "{}"])))
def test_every_word_is_read_once(words: list[str]) -> None:
    """A word that is a value cannot be left over, too."""
    line = read_line(words, Grammar(own={}, passed={}, vllm=False, positional=0))
    read = [use.index for use in line.uses] + [word.index for word in line.left]
    read += [value.index for use in line.uses if not use.inline for value in use.values]
    assert len(read) == len(set(read))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
def test_every_table_can_be_read(engine: Any) -> None:
    """They come from a script, for versions that nobody has seen."""
    for version in known_versions(engine):
        table = load_table(engine, version)
        assert table is not None
        assert (table.engine, table.version) == (engine, version)
        assert all(table.parsers.values())


def test_a_version_without_table_is_judged_by_its_neighbours() -> None:
    """What both sides refuse it refuses; judged by one, a new flag would be a wrong alarm."""
    found = basis("vllm", "0.30.0")
    assert [table.version for table in found.tables] == ["0.31.0", "0.29.0"]
    assert found.certain


@pytest.mark.parametrize("version", ["0.9.0", "9.0.0"])
def test_a_version_outside_all_tables_is_never_certain(version: str) -> None:
    """A flag that the newest known version lacks may be what the next one brings."""
    found = check("vllm", ("K3", "--no-such-flag"), (), Versions(version, None))
    assert [fault.certain for fault in found] == [False]


@pytest.mark.parametrize("version", [None, "main", "0.1.dev19262+gb6bbf29dd"])
def test_no_version_means_all_of_them(version: str | None) -> None:
    """A private tag tells nothing; what no version takes is still wrong."""
    found = check(
        "vllm",
        ("K3", "--no-such-flag", "--kda-decode-backend", "auto"),
        (),
        Versions(version, None),
    )
    assert shown(found) == [["unknown", "--no-such-flag"]]
