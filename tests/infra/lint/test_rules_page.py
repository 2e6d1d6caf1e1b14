"""docs/rules.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from rules_page import page, unlisted

from infra.lint.ruleset import RULES

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"


def test_the_page_is_current() -> None:
    """To write it again: `python tests/support/rules_page.py docs/rules.md`."""
    assert PAGE.read_text(encoding="utf-8") == page(RULES)


def test_every_rule_is_on_the_page() -> None:
    """A new letter needs a heading."""
    assert unlisted(RULES) == []
