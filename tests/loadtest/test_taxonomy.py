"""Claims about the classes of failures: explained once, and shown as they are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.client.client_options import ClientOptions
from loadtest.client.taxonomy import classify_status, error_class, error_classes

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def table() -> str:
    rows = ["| class | side | meaning |", "|---|---|---|"]
    rows += [f"| `{c.name}` | {c.side} | {c.meaning} |" for c in error_classes().values()]
    return "\n".join(rows)


def test_the_page_shows_the_classes_as_they_are() -> None:
    """Copy the table from this test's output when it differs."""
    text = table()
    assert text in PAGE.read_text(encoding="utf-8"), text


def test_the_page_shows_every_limit() -> None:
    """An option that nobody knows of is none."""
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in ClientOptions.model_fields if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("status", [*range(300, 600, 1), 600, 799])
def test_every_status_has_a_class_that_is_explained(status: int) -> None:
    """Also those that nobody has thought of."""
    name = classify_status(status, b"")
    assert name in error_classes() or name == f"http_{status}"
    assert error_class(name).meaning
