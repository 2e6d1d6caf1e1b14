"""Every rule against its cases: tests/cases/lint/*.yaml.

pytest tests/infra/lint/test_cases.py -k K003
"""

from __future__ import annotations

import pytest
from lint_cases import Case, base, lint_all, lint_one, manifests_of, read_cases, shown

from infra.lint.rule import Finding
from infra.lint.ruleset import RULES
from infra.lint.waivers import RULES as WAIVER_RULES

CASES = read_cases()
MUTATIONS = [case for case in CASES if case.base]
# What no change of our own replicas can bring about, since it needs something else: another
# engine, two roles, a Job, a controller, text of YAML; M004 speaks of every engine.
NOT_OURS = {
    *("F018", "K019", "M004", "P006", "P011", "P013", "P024", "P026", "P027", "S002"),
    *(rule.id for rule in WAIVER_RULES),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_finds_exactly_this(case: Case) -> None:
    """A missed place is an outage, a wrong one makes people switch the linter off."""
    wanted = [dict(sorted(item.items())) for item in case.finds]
    assert shown(lint_one(case), case.finds) == sorted(wanted, key=repr)


@pytest.mark.parametrize("case", MUTATIONS, ids=str)
def test_one_change_makes_one_rule_speak(case: Case) -> None:
    """Rules overlap where a person would get two answers for one mistake; an info is no answer."""
    findings = lint_all(manifests_of(case), case.kubernetes)
    speaking = {item.rule for item in findings if case.rule == item.rule or _counts(item)}
    assert speaking == ({case.rule} if case.finds else set()) | case.also


@pytest.mark.parametrize(
    ("name", "kubernetes"), sorted({(case.base, case.kubernetes) for case in MUTATIONS})
)
def test_a_base_is_good(name: str, kubernetes: tuple[int, int]) -> None:
    """Else a mutation would prove nothing."""
    assert [item for item in lint_all(base(name), kubernetes) if _counts(item)] == []


def test_every_rule_has_a_mutation_that_it_finds() -> None:
    """A rule may be right on a manifest made for it, and silent in a whole region."""
    broken = {case.rule for case in MUTATIONS if case.finds}
    assert {rule.id for rule in RULES} - broken == NOT_OURS


def _counts(finding: Finding) -> bool:
    return finding.severity != "info"


@pytest.mark.parametrize("rule", [rule.id for rule in RULES if rule not in WAIVER_RULES])
def test_a_rule_has_a_positive_and_a_negative_case(rule: str) -> None:
    """A rule without either is not known to work."""
    kinds = {bool(case.finds) for case in CASES if case.rule == rule}
    assert kinds == {True, False}
