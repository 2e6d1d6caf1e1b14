"""Show a rollout's plan, for the command that only shows it and for the one that asks."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cli.output import output_option, print_facts, print_json, print_line, print_table
from fleet.load import load_fleet, load_release
from fleet.presets import FILE_ENDINGS
from fleet.rollout.plan import PlannedStep, RolloutPlan, listed, plan_rollout, rollout_json
from fleet.rollout.strategy import load_strategy
from fleet.units import format_duration

HERE = Path("here")  # paths on the command line are relative to where it is typed
REGIONS = click.option(
    "--region", "regions", multiple=True, metavar="NAME", help="Only this region. Repeatable."
)
STRATEGY = click.option(
    "--strategy",
    "strategy_file",
    type=click.Path(path_type=Path),
    help="Waves, pace, floors and gates (docs/rollout.md). Default: one at a time in a rack.",
)


@click.command()
@click.argument("fleet_file", type=click.Path(path_type=Path))
@click.argument("release")
@REGIONS
@STRATEGY
@output_option
def plan(
    fleet_file: Path,
    release: str,
    regions: tuple[str, ...],
    strategy_file: Path | None,
    output: str,
) -> None:
    """Show the steps from the fleet's release to RELEASE (a preset or a file). Changes nothing.

    \b
    Example:
        k3fleet rollout plan fleets/demo.yaml vllm-tp8-dcp8-dspark
        k3fleet rollout plan fleets/demo.yaml releases/mine-0a1b2c3d.yaml --region us-east -o json
    """
    load_release(release, beside=HERE)  # its own faults first, as it was typed
    result = plan_rollout(
        load_fleet(fleet_file),
        load_fleet(fleet_file, release=named_release(release, fleet_file)).release,
        load_strategy(strategy_file),
        regions=regions,
    )
    if output == "json":
        print_json(rollout_json(result))
    else:
        print_plan(result)


def named_release(release: str, fleet_file: Path) -> str:
    """Give a release as the fleet file would name it: a preset, or where its file is from there.

    So another working copy, where the two lie in the same way, finds the same file.
    """
    typed = Path(release)
    if typed.suffix not in FILE_ENDINGS:
        return release
    return f"./{os.path.relpath(typed.absolute(), fleet_file.absolute().parent)}"


def print_plan(result: RolloutPlan) -> None:
    """Print a plan as a table with its facts and warnings."""
    click.echo(f"{result.old} -> {result.new}")
    if not result.steps:
        click.echo(f"nothing to do: all {result.unchanged} replicas run it already.")
        return
    print_table(
        ("step", "wave", "after", "replicas", "serving meanwhile", "prefill again"),
        [_row(step) for step in result.steps],
    )
    print_facts(_facts(result))
    for warning in result.warnings:
        print_line(f"warning: {warning}")


def _row(step: PlannedStep) -> tuple[object, ...]:
    serving = ", ".join(f"{name} {left} of {total}" for name, (left, total) in step.serving.items())
    tokens = sum(cost.prefill_tokens for cost in step.costs.values())
    slowest_s = max((cost.prefill_s for cost in step.costs.values()), default=0.0)
    return (
        step.number,
        step.wave,
        _minutes(step.starts_s),
        ", ".join(step.replicas) or f"frontends and gateway of {step.shared}",
        serving or "all",
        f"{tokens / 1e6:.1f} M tokens, {slowest_s:.0f} s",
    )


def _facts(result: RolloutPlan) -> list[tuple[str, str]]:
    times = result.times
    parts = (
        ("drain", times.drain_s),
        ("weights", times.load_s),
        ("warm-up", times.warm_up_s),
        ("update", times.update_s),
        ("registration and questions", times.register_s + times.questions_s),
        ("gates", times.gates_s),
    )
    soaks = ", ".join(f"{scope} {_minutes(soak)}" for scope, soak in result.soaks_s.items())
    dip = max((c.hit_dip for step in result.steps for c in step.costs.values()), default=0.0)
    beside = "yes" if result.mixing.side_by_side else f"no: {listed(result.mixing.apart)}"
    return [
        ("a step", ", ".join(f"{name} {_minutes(length)}" for name, length in parts)),
        ("soaks", soaks),
        ("in all", f"{_minutes(result.total_s)}; one by one {_minutes(result.one_by_one_s)}"),
        ("hit rate", f"falls by up to {dip * 100:.0f} points while moved sessions come back"),
        ("side by side", beside),
        *([] if result.mixing.side_by_side else _sets(result)),
        *([("already there", f"{result.unchanged} replicas")] if result.unchanged else []),
    ]


def _sets(result: RolloutPlan) -> list[tuple[str, str]]:
    """Say what two sets mean: frontends that come and go, and all sessions that change over."""
    old, new = result.sets
    tokens = sum(c.prefill_tokens for step in result.steps for c in step.costs.values())
    sessions = sum(c.sessions for step in result.steps for c in step.costs.values())
    come = f"{result.frontends} of set {new} in each region with its first replica"
    cost = f"{sessions} cold prefills, {tokens / 1e6:.0f} M tokens"
    return [
        ("frontends", f"{come}; those of {old} go with the last"),
        ("sessions", f"change over once each; with those that lose their replica {cost}"),
    ]


def _minutes(seconds: float) -> str:
    """Write a duration to the minute: an estimate knows no seconds."""
    return format_duration(round(seconds / 60) * 60)
