"""`k3fleet plan`: show what a fleet file means. Changes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from cli.output import output_option, print_facts, print_json, print_line, print_table
from fleet.load import load_fleet
from fleet.plan import TYPICAL_CONTEXT_TOKENS, Plan, make_plan, plan_json
from fleet.release import Role
from fleet.units import format_bytes


@click.command()
@click.argument("fleet_file", type=click.Path(path_type=Path))
@output_option
def plan(fleet_file: Path, output: str) -> None:
    """Show how many replicas each rack gets and what they can cache.

    \b
    Example:
        k3fleet plan fleets/demo.yaml
        k3fleet plan fleets/demo.yaml -o json
    """
    result = make_plan(load_fleet(fleet_file))
    if output == "json":
        print_json(plan_json(result))
    else:
        _print(result)


def _print(result: Plan) -> None:
    title = f"{result.model} on {result.hardware}, release {result.release_id}"
    print_line(f"Fleet {result.name}: {title}")
    rows = [
        (region.name, rack.id, rack.nodes, rack.healthy_nodes, rack.replicas)
        for region in result.regions
        for rack in region.racks
    ]
    print_table(("region", "rack", "nodes", "healthy", "replicas"), rows)
    print_facts(_facts(result))
    for warning in result.warnings:
        print_line(f"warning: {warning}")


def _facts(result: Plan) -> list[tuple[str, str]]:
    totals, memory = result.totals, result.memory
    size = f"{totals.racks} racks, {totals.replicas} replicas, {totals.gpus} GPUs"
    weights, copy = format_bytes(result.weights_bytes_to_stage), format_bytes(totals.weights_bytes)
    gpu = f"{_gib(memory.weights_per_gpu_bytes)} weights, {_gib(memory.reserve_bytes)} runtime"
    tokens = f"{memory.kv_tokens / 1e6:.1f} M tokens of KV"
    joint = "or" if memory.shared_pool else "and"
    states = f"{memory.state_snapshots} KDA states of {_gib(memory.state_bytes_per_gpu)} per GPU"
    return [
        ("total", f"{size} on {totals.nodes} nodes"),
        *_jobs(result),
        ("weights to stage", f"{weights} ({copy} on each of {totals.nodes} nodes)"),
        ("memory per GPU", f"{gpu}, {_gib(memory.cache_bytes_per_gpu)} cache"),
        ("cache per replica", f"{tokens}, {joint} {states}"),
        *(
            (f"{length:,} tokens", f"{memory.sessions_at(length)} such sessions stay cached")
            for length in (TYPICAL_CONTEXT_TOKENS, result.context_tokens)
        ),
    ]


def _jobs(result: Plan) -> list[tuple[str, str]]:
    """Count the replicas by job, where there is more than one."""
    jobs: tuple[Role, ...] = ("prefill", "decode")
    counts = {job: sum(region.with_role(job) for region in result.regions) for job in jobs}
    if not any(counts.values()):
        return []
    return [("jobs", ", ".join(f"{count} {job}" for job, count in counts.items()))]


def _gib(count: int) -> str:
    return format_bytes(count, binary=True)
