"""Running rules: the order of findings, waivers, and the set of rules itself."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from datetime import date
from importlib import import_module

from lint_cases import scene

from infra.lint import rules, waivers
from infra.lint.manifest import Manifest
from infra.lint.rule import Rule, Spot
from infra.lint.ruleset import RULES
from infra.lint.run import Report, lint
from infra.lint.scene import Scene
from infra.lint.waivers import Waiver

TODAY = date(2026, 11, 30)


def _each(scene: Scene) -> Iterator[Spot]:
    return (Spot(item, ("spec",), "it is there") for item in scene.manifests)


RULE = Rule(
    id="K003",
    severity="error",
    title="Nothing is there",
    reason="It would be there",
    source="here",
    fix="Remove it",
    check=_each,
)
MANIFESTS = tuple(
    Manifest(
        file=file,
        data={"kind": "Pod", "metadata": {"namespace": "k3", "name": name}},
        lines={(): line, ("spec",): line + 3},
    )
    for file, line, name in [("b", 1, "x"), ("a", 90, "y"), ("a", 5, "z")]
)


def waiver(rule: str = "K003", object_: str = "*", expires: date = TODAY) -> Waiver:
    return Waiver(
        rule=rule,
        object=object_,
        reason="known",
        expires=expires,
        file="fleet.yaml",
        line=9,
        path="lint.waivers[0]",
    )


def report(*given: Waiver) -> Report:
    return lint(scene(MANIFESTS), [RULE], waivers=given, today=TODAY)


def test_findings_are_in_reading_order() -> None:
    """By file, then by line as a number."""
    found = [(item.file, item.line, item.object) for item in report().findings]
    assert found == [("a", 8, "Pod k3/z"), ("a", 93, "Pod k3/y"), ("b", 4, "Pod k3/x")]


def test_a_waiver_hides_the_objects_that_it_names() -> None:
    """And no others; what is hidden is still reported as waived."""
    found = report(waiver(object_="Pod k3/[xy]"))
    assert [item.object for item in found.findings] == ["Pod k3/z"]
    assert [item.finding.object for item in found.waived] == ["Pod k3/y", "Pod k3/x"]


def test_a_run_with_waived_findings_only_is_clean() -> None:
    """That is what a waiver is for; its last day counts."""
    assert report(waiver()).is_clean


def test_a_waiver_that_has_ended_hides_nothing_and_is_named() -> None:
    """Else what was accepted for a week is accepted for ever."""
    found = report(waiver(expires=date(2026, 11, 29)))
    assert [item.rule for item in found.findings] == ["K003", "K003", "K003", "W001"]
    assert (found.findings[-1].file, found.findings[-1].line) == ("fleet.yaml", 9)


def test_a_waiver_that_matches_nothing_is_an_info() -> None:
    """A misspelt one would otherwise look like a clean fleet, or stay for ever."""
    found = report(waiver(), waiver(rule="K033"))
    assert [item.rule for item in found.findings] == ["W002"]
    assert found.is_clean


def test_no_module_of_rules_is_forgotten() -> None:
    """A rule that never runs finds nothing."""
    modules = [f"{rules.__name__}.{item.name}" for item in pkgutil.iter_modules(rules.__path__)]
    found = [rule for name in modules for rule in import_module(name).RULES]
    assert {rule.id for rule in (*found, *waivers.RULES)} == {rule.id for rule in RULES}


def test_rules_have_ids_of_their_own_in_order() -> None:
    """A waiver names an id, and must mean one rule."""
    ids = [rule.id for rule in RULES]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch("[A-Z][0-9]{3}", item) for item in ids)


def test_a_rule_says_everything() -> None:
    """`--explain` has no gaps."""
    texts = [text for rule in RULES for text in (rule.title, rule.reason, rule.source, rule.fix)]
    assert [text for text in texts if not text or text.strip() != text] == []
