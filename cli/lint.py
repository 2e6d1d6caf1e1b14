"""`k3fleet lint`: what is wrong with a fleet's manifests, or with anybody's."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import click

from cli.lint_output import print_report, report_json
from cli.output import output_choice, print_facts, print_json
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError, sentence
from fleet.spec import Kubernetes
from infra.lint.rule import Rule, which_rule
from infra.lint.ruleset import RULES
from infra.lint.run import lint as run_lint
from infra.lint.sarif import sarif
from infra.lint.subject import subject


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="FLEET_FILE|PATH...")
@output_choice("table", "json", "sarif")
@click.option("--explain", metavar="RULE", help="Say what a rule wants, why, and who says so.")
@click.option(
    "--kubernetes",
    type=click.Choice(get_args(Kubernetes)),
    help="Version of the cluster. Default: the fleet file's, else the newest.",
)
@click.option(
    "--fleet",
    "fleet_file",
    type=click.Path(path_type=Path),
    help="The fleet that the manifests belong to: its waivers, model and hardware count.",
)
def lint(
    paths: tuple[Path, ...],
    output: str,
    explain: str | None,
    kubernetes: Kubernetes | None,
    fleet_file: Path | None,
) -> int:
    """Check a fleet's manifests, or YAML and JSON files and folders of your own.

    A fleet file is rendered in memory, all regions of it. Nothing is applied.

    \b
    Example:
        k3fleet lint fleets/demo.yaml
        k3fleet lint manifests/ --fleet fleets/demo.yaml
        k3fleet lint engine.yaml -o sarif > lint.sarif
        k3fleet lint --explain K003

    \b
    Exit codes:
        0 clean (infos only), 1 errors or warnings, 3 a file cannot be used
    """
    if explain is not None:
        _explain(_rule(explain), output)
        return EXIT_GO
    if not paths:
        raise click.UsageError("Nothing to check. Give a fleet file, a folder or manifests.")
    given = subject(paths, fleet_file, kubernetes)
    for notice in given.notices:
        click.echo(f"note: {notice}", err=True)
    today = datetime.now(UTC).date()
    report = run_lint(given.scene, RULES, waivers=given.waivers, today=today)
    if output == "json":
        print_json(report_json(report))
    elif output == "sarif":
        print_json(sarif(report, RULES, version("k3fleet")))
    else:
        print_report(report)
    return EXIT_GO if report.is_clean else EXIT_NO_GO


def _rule(name: str) -> Rule:
    known = {rule.id: rule for rule in RULES}
    wanted = name.upper()
    if wanted in known:
        return known[wanted]
    fix = which_rule(wanted, RULES)
    raise ConfigError(f"--explain {name[:60]!r}: there is no such rule. {fix}.")


def _explain(rule: Rule, output: str) -> None:
    facts = [
        ("why", sentence(rule.reason)),
        ("source", rule.source),
        ("fix", sentence(rule.fix)),
    ]
    if output == "table":
        click.echo(f"{rule.id} ({rule.severity}): {sentence(rule.title)}")
        print_facts(facts)
    else:
        print_json({"id": rule.id, "severity": rule.severity, "title": rule.title, **dict(facts)})
