"""Our rendering beside the public recipes, and the page that shows both."""

from __future__ import annotations

import pytest
from recipe_table import PAIRS, RECIPES, ROOT, Row, compare, document, read_reasons, reason_of

pytestmark = pytest.mark.skipif(
    not RECIPES.is_dir(), reason="needs the public recipes in ../shared/data/k3-recipes"
)
PAGE = ROOT / "docs" / "recipes.md"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Both sides of every setting."""
    return compare()


def test_every_difference_has_its_reason(rows: list[Row]) -> None:
    """A difference that nobody can explain is a mistake, theirs or ours."""
    reasons = read_reasons()
    unexplained = [row for row in rows if row.differs and reason_of(row, reasons) is None]
    assert unexplained == []


def test_every_reason_has_its_difference(rows: list[Row]) -> None:
    """A reason that outlives its difference explains something that is no longer so."""
    reasons = read_reasons()
    used = {
        (id(reason), pattern)
        for row in rows
        if row.differs and (reason := reason_of(row, reasons))
        for pattern in reason.matching(row)
    }
    unused = [
        pattern
        for reason in reasons
        for pattern in reason.patterns
        if (id(reason), pattern) not in used
    ]
    assert unused == []


def test_the_page_shows_what_is_rendered(rows: list[Row]) -> None:
    """To write it again: `python tests/support/recipe_table.py docs/recipes.md`."""
    assert PAGE.read_text(encoding="utf-8") == document(rows, read_reasons())


def test_every_component_is_compared(rows: list[Row]) -> None:
    """A component that fell out of the comparison would agree with everything."""
    compared = {(row.chapter, label) for row in rows for label in row.where}
    assert {(pair.engine, label) for pair in PAIRS for label in pair.parts} <= compared


@pytest.mark.parametrize(
    ("engine", "setting"),
    [
        ("vllm", "flag --tensor-parallel-size"),
        ("vllm", "flag --kv-cache-dtype"),
        ("vllm", "object multinode nodeCount"),
        ("vllm", "probe startup"),
        ("sglang", "flag --dcp-size"),
        ("sglang", "flag --mem-fraction-static"),
        ("sglang", "resource limits nvidia.com/gpu"),
        ("vllm", "domain claimed by pod and container"),
    ],
)
def test_what_decides_speed_is_the_same(rows: list[Row], engine: str, setting: str) -> None:
    """The shape of a replica is theirs: two nodes, eight GPUs, one domain."""
    found = [row for row in rows if (row.chapter, row.setting) == (engine, setting)]
    assert found
    assert not [row for row in found if row.differs]
