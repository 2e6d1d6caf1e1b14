"""Show what the sessions of a profile, or of recordings, are like."""

from __future__ import annotations

from dataclasses import asdict

import click

from cli.output import output_option, print_facts, print_json, print_line, print_table
from loadtest.replay.formats import load_traces, parse_source
from loadtest.replay.options import ReplayOptions
from loadtest.replay.reading import Rules
from loadtest.replay.statistics import trace_statistics
from loadtest.results.quantiles import Quantiles
from loadtest.settings import TRACE_PREFIX
from loadtest.traffic.profiles import DEFAULT_PROFILE, load_profile
from loadtest.traffic.statistics import MOST_CALLS, Statistics, draw_statistics

DRAWN = 1000


@click.command()
@click.argument("profile", default=DEFAULT_PROFILE, metavar="PROFILE|FILE.yaml|trace:PATH")
@click.option(
    "--sessions",
    type=click.IntRange(1, 1_000_000),
    help="How many to draw, or to read of a recording. The longest sessions decide the means: "
    "more are steadier. Default: 1000 are drawn; all of a recording.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the sessions.")
@output_option
def show(profile: str, sessions: int | None, seed: int, output: str) -> None:
    """Show what sessions of PROFILE are like: steps, lengths, and what a cache could have.

    The sessions are drawn, not sent: no text, no server, tokens and pauses of production. PROFILE
    is a name, or a file of your own. Or see what was recorded: trace:PATH, trace:FORMAT:PATH.

    \b
    Example:
        k3fleet traffic show chat_assist --sessions 5000
        k3fleet traffic show ./mine.yaml -o json
        k3fleet traffic show trace:sessions/
    """
    if profile.startswith(TRACE_PREFIX):
        _show_trace(profile, sessions, output)
        return
    sessions = sessions or DRAWN
    found = draw_statistics(load_profile(profile), sessions=sessions, seed=seed)
    note = "" if found.calls < MOST_CALLS else _cut_note(found, sessions)
    if output == "json":
        if note:
            click.echo(note, err=True)
        print_json(asdict(found))
    else:
        _print(found, note)


def _cut_note(found: Statistics, asked: int) -> str:
    """Say that fewer were drawn than asked for."""
    return (
        f"stopped after {MOST_CALLS:,} calls, in session {found.sessions:,} of {asked:,}: the "
        "statistics are of these sessions, the last one cut short"
    )


def _print(found: Statistics, note: str) -> None:
    print_facts(
        (
            ("profile", found.profile),
            ("drawn", f"{found.sessions:,} sessions, {found.calls:,} calls, seed {found.seed}"),
            *([("note", note)] if note else []),
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


def _show_trace(traffic: str, sessions: int | None, output: str) -> None:
    rules = Rules(options=ReplayOptions(max_sessions=sessions))
    found = trace_statistics(load_traces(parse_source(traffic.removeprefix(TRACE_PREFIX)), rules))
    if output == "json":
        print_json({"traffic": traffic, **asdict(found)})
        return
    counts = f"{found.sessions:,} sessions, {found.subagents:,} sub-agents, {found.calls:,} calls"
    print_facts((("recording", traffic), ("holds", counts)))
    spreads = (
        ("steps per session", found.calls_per_session),
        ("prompt tokens", found.prompt_tokens),
        ("output tokens", found.output_tokens),
        ("pause after a tool, s", found.tool_gap_s),
        ("pause of a person, s", found.user_gap_s),
        ("length of a session, s", found.span_s),
    )
    columns = ("per session or step", "mean", "p50", "p90", "p99", "most")
    print_table(columns, [(*_row(name, spread), round(spread.most)) for name, spread in spreads])
    print_facts(
        (
            ("input : output", f"{found.in_out:.0f} : 1"),
            ("hit of a cache without end", f"{found.hit:.1%} of tokens, cold at the start"),
            ("the same by units", f"{found.block_hit:.1%} of blocks, or of messages"),
        )
    )
    print_line("What the numbers mean: docs/replay.md")


def _row(name: str, values: Quantiles) -> tuple[str, int, int, int, int]:
    return (name, round(values.mean), round(values.p50), round(values.p90), round(values.p99))
