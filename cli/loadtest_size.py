"""`k3fleet loadtest size`: say how many cores a load needs."""

from __future__ import annotations

from pathlib import Path

import click

from cli.options import MAX_TOKEN_SCALE, TOKENS_PER_CHUNK, TOKENS_PER_S, FiniteRange
from cli.output import output_option, print_facts, print_json
from fleet.errors import ConfigError
from fleet.load import load_fleet
from fleet.plan import make_plan
from loadtest.judge.sizing import EVENTS_PER_CORE_S, AgentPace, Demand, closed_loop, pace_of
from loadtest.prompt.words import Vocabulary
from loadtest.settings import TRACE_PREFIX
from loadtest.traffic.profiles import load_profile
from loadtest.traffic.sessions import ProfileTraffic, Scale, Seeds

USERS_PER_REPLICA = 2
FACT_NAMES = {
    "users": "users",
    "output_tokens_per_s": "output tokens/s",
    "events_per_s": "events/s",
    "events_per_core_s": "events/s a core measures",
    "cores": "cores",
}


@click.command()
@click.option(
    "--output-tokens-per-s",
    type=TOKENS_PER_S,
    help="Output tokens/s that the target makes, over all its racks.",
)
@click.option(
    "--tokens-per-chunk",
    type=TOKENS_PER_CHUNK,
    default=1.0,
    show_default=True,
    help="About 3 with speculation.",
)
@click.option(
    "--fleet",
    "fleet_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A fleet instead of a rate.",
)
@click.option(
    "--users", type=click.IntRange(1), help="Agents at work. Default: two for each replica."
)
@click.option(
    "--traffic",
    metavar="PROFILE",
    default="interactive_agent",
    show_default=True,
    help="What the agents do.",
)
@click.option(
    "--token-scale",
    type=FiniteRange(1, MAX_TOKEN_SCALE),
    default=1.0,
    show_default=True,
    help="Divide lengths by this. A lab does by 16.",
)
@click.option(
    "--time-scale",
    type=FiniteRange(1, 1_000_000),
    default=1.0,
    show_default=True,
    help="Divide pauses by this. A lab does by 60.",
)
@output_option
def size(
    output_tokens_per_s: float | None,
    tokens_per_chunk: float,
    fleet_file: Path | None,
    users: int | None,
    traffic: str,
    output: str,
    **scales: float,
) -> None:
    """Say how many cores, one worker process on each, a target needs.

    \b
    Example:
        k3fleet loadtest size --output-tokens-per-s 100000 --tokens-per-chunk 3
        k3fleet loadtest size --fleet fleets/demo.yaml --users 500
        k3fleet loadtest size --fleet fleets/demo.yaml --token-scale 16 --time-scale 60
    """
    if (output_tokens_per_s is None) == (fleet_file is None):
        raise ConfigError(
            "--output-tokens-per-s, --fleet: give one of them. Either the rate of the target is "
            "known, or it is estimated from the agents of a fleet."
        )
    agents = users or 1
    scale = Scale(tokens=scales["token_scale"], time=scales["time_scale"])
    if fleet_file is not None:
        agents = users or USERS_PER_REPLICA * make_plan(load_fleet(fleet_file)).totals.replicas
        output_tokens_per_s = closed_loop(agents, _pace(traffic, scale))
    demand = Demand(
        output_tokens_per_s=output_tokens_per_s or 0.0, tokens_per_chunk=tokens_per_chunk
    )
    found = {
        "users": agents if fleet_file is not None else None,
        "output_tokens_per_s": round(demand.output_tokens_per_s, 1),
        "events_per_s": round(demand.events_per_s, 1),
        "events_per_core_s": EVENTS_PER_CORE_S,
        "cores": demand.cores,
    }
    if output == "json":
        print_json(found)
    else:
        print_facts((FACT_NAMES[name], f"{value:,}") for name, value in found.items() if value)


def _pace(traffic: str, scale: Scale) -> AgentPace:
    """Sample a profile; the words do not matter, only how many there are."""
    if traffic.startswith(TRACE_PREFIX):
        raise ConfigError(
            f"--traffic {traffic}: only profiles are sized without a tokenizer. "
            "Give a profile; `loadtest run` sizes a trace before it sends it."
        )
    words = Vocabulary(["a"], [0])
    seeds = Seeds(seed=1, salt="sizing")
    return pace_of(ProfileTraffic(load_profile(traffic), words, scale, seeds))
