"""`k3fleet traffic`: see what a load test would send."""

from __future__ import annotations

from dataclasses import asdict

import click

from cli.output import output_option, print_facts, print_json, print_line, print_table
from fleet.errors import ConfigError
from loadtest.settings import TRACE_PREFIX
from loadtest.traffic.profiles import DEFAULT_PROFILE, known_profiles, load_profile
from loadtest.traffic.statistics import MOST_CALLS, Quantiles, Statistics, draw_statistics


@click.group()
def traffic() -> None:
    """See what a traffic profile sends.

    \b
    Example:
        k3fleet traffic list
        k3fleet traffic show interactive_agent
    """


@traffic.command("list")
@output_option
def list_profiles(output: str) -> None:
    """List the profiles that come with k3fleet.

    \b
    Example:
        k3fleet traffic list
    """
    rows = [(name, load_profile(name).about) for name in known_profiles()]
    if output == "json":
        print_json([{"name": name, "about": about} for name, about in rows])
    else:
        print_table(("profile", "what it is"), rows)


@traffic.command()
@click.argument("profile", default=DEFAULT_PROFILE, metavar="PROFILE|FILE.yaml")
@click.option(
    "--sessions",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="How many to draw. The longest sessions decide the means: more are steadier.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the sessions.")
@output_option
def show(profile: str, sessions: int, seed: int, output: str) -> None:
    """Show what sessions of PROFILE are like: steps, lengths, and what a cache could have.

    The sessions are drawn, not sent: no text, no server, tokens and pauses of production. PROFILE
    is a name, or a file of your own.

    \b
    Example:
        k3fleet traffic show autonomous_agent --sessions 5000
        k3fleet traffic show burst -o json
    """
    if profile.startswith(TRACE_PREFIX):
        raise ConfigError(
            f"{profile}: is a recording, not a profile. See docs/replay.md for those."
        )
    found = draw_statistics(load_profile(profile), sessions=sessions, seed=seed)
    if found.sessions < sessions:
        click.echo(
            f"stopped after {MOST_CALLS:,} calls, in session {found.sessions} of {sessions}",
            err=True,
        )
    if output == "json":
        print_json(asdict(found))
    else:
        _print(found)


def _print(found: Statistics) -> None:
    print_facts(
        (
            ("profile", found.profile),
            ("drawn", f"{found.sessions:,} sessions, {found.calls:,} calls, seed {found.seed}"),
        )
    )
    spreads = (
        ("steps per session", found.steps_per_session),
        ("prompt tokens", found.prompt_tokens),
        ("output tokens", found.output_tokens),
    )
    print_table(
        ("per session or step", "mean", "p50", "p90", "p99"),
        [_row(name, spread) for name, spread in spreads],
    )
    print_facts(
        (
            ("input : output", f"{found.input_per_output:.0f} : 1"),
            ("calls of sub-agents", f"{found.subagent_share:.1%}"),
            ("compactions", f"{found.compaction_share:.2%} of calls"),
            ("uncached per step", f"{found.uncached_per_step:,.0f} tokens"),
        )
    )
    rows = [(rule, f"{rate:.1%}") for rule, rate in found.attainable.items()]
    print_table(("what a cache keeps", "attainable hit"), rows)
    print_line("What the numbers mean: docs/traffic.md")


def _row(name: str, values: Quantiles) -> tuple[str, int, int, int, int]:
    return (name, round(values.mean), round(values.p50), round(values.p90), round(values.p99))
