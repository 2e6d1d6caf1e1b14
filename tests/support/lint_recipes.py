"""Lint the public K3 recipes, and print what is found as YAML."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))

from lint_cases import FOLDER, lint_all

from infra.lint.reading import parse_manifests
from infra.lint.rule import Finding

RECIPES = Path(__file__).parents[3] / "shared/data/k3-recipes"


def recipe_names() -> list[str]:
    """Name the recipes, as they are named in the golden file."""
    names = yaml.load(
        (FOLDER / "foreign" / "recipes.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    return sorted(names or ())


def findings_of(recipe: str) -> list[str]:
    """Lint one recipe on its own, one line per finding, infos too."""
    manifests, problems = parse_manifests((RECIPES / recipe).read_bytes(), recipe)
    assert not problems
    return sorted(map(_line, lint_all(tuple(manifests), (1, 37))))


def _line(found: Finding) -> str:
    return f"{found.rule} {found.severity} line {found.line} {found.path}: {found.what}"


def main() -> None:
    """Print the findings of every recipe."""
    recipes = sorted(str(path.relative_to(RECIPES)) for path in RECIPES.rglob("*.yaml"))
    found = {recipe: findings_of(recipe) for recipe in recipes}
    sys.stdout.write(yaml.safe_dump(found, sort_keys=False, width=1000))


if __name__ == "__main__":
    main()
