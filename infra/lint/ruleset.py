"""Name all rules of the linter."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from infra.lint import waivers
from infra.lint.rule import Rule
from infra.lint.rules import (
    compute_domains,
    dynamo_operator,
    engine_pitfalls,
    exposure,
    flags,
    grammar,
    group,
    memory,
    pitfalls,
    placement,
    planes,
    references,
    replica,
    rollout,
    routing,
    schema,
    selections,
    shared_memory,
    staged_files,
)

_PARTS = (
    compute_domains,
    dynamo_operator,
    engine_pitfalls,
    exposure,
    flags,
    grammar,
    group,
    memory,
    pitfalls,
    placement,
    planes,
    references,
    replica,
    rollout,
    routing,
    schema,
    selections,
    shared_memory,
    staged_files,
    waivers,
)
RULES: tuple[Rule, ...] = tuple(
    sorted(chain.from_iterable(part.RULES for part in _PARTS), key=attrgetter("id"))
)
