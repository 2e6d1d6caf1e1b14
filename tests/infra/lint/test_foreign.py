"""Manifests that others wrote: every finding is right, and none is missing.

`recipes.yaml` holds what the linter says about the public K3 recipes; each line was
read by hand. After a change of the rules, write it anew and read the difference:

    .venv/bin/python tests/support/lint_recipes.py > tests/cases/lint/foreign/recipes.yaml
"""

from __future__ import annotations

import pytest
import yaml
from lint_cases import FOLDER, lint_all
from lint_recipes import RECIPES, findings_of, recipe_names

from infra.lint.reading import parse_manifests

# What a generator's output must be told, and by which rule.
GENERATED = {
    "K014": "an image by tag",
    "K017": "8 GiB of shared memory",
    "K021": "a minute to finish streams",
    "M001": "weights of four ranks on four GPUs",
    "P012": "symmetric memory",
    "P020": "prefix caching in steps of 1,536 tokens",
    "X006": "KV events for a router that reads none",
    "X007": "no affinity",
}


def test_each_fault_of_a_generator_is_named() -> None:
    """No public generator makes a K3 manifest that works; ours must say why."""
    text = (FOLDER / "foreign" / "generator.yaml").read_bytes()
    manifests, problems = parse_manifests(text, "generator.yaml")
    assert not problems
    spoken = {item.rule for item in lint_all(tuple(manifests), (1, 37)) if item.severity != "info"}
    assert spoken == set(GENERATED)


@pytest.mark.skipif(not RECIPES.is_dir(), reason="needs the public recipes in ../shared/data")
@pytest.mark.parametrize("recipe", recipe_names())
def test_findings_on_a_public_recipe_are_those_that_were_reviewed(recipe: str) -> None:
    """A false positive on a recipe that runs makes people switch the linter off."""
    text = (FOLDER / "foreign" / "recipes.yaml").read_text(encoding="utf-8")
    reviewed = yaml.load(text, Loader=yaml.CSafeLoader)
    assert findings_of(recipe) == reviewed[recipe]
