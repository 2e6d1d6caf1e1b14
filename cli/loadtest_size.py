"""`k3fleet loadtest size`: say how many cores a load needs."""

from __future__ import annotations

from pathlib import Path

import click

from cli.options import TOKENS_PER_CHUNK, TOKENS_PER_S
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
@output_option
def size(
    output_tokens_per_s: float | None,
    tokens_per_chunk: float,
    fleet_file: Path | None,
    users: int | None,
    traffic: str,
    output: str,
) -> None:
    """Say how many cores, one worker process on each, a target needs.

    \b
    Example:
        k3fleet loadtest size --output-tokens-per-s 100000 --tokens-per-chunk 3
        k3fleet loadtest size --fleet fleets/demo.yaml --users 500
    """
    if (output_tokens_per_s is None) == (fleet_file is None):
        raise ConfigError(
            "--output-tokens-per-s, --fleet: give one of them. Either the rate of the target is "
            "known, or it is estimated from the agents of a fleet."
        )
    agents = users or 1
    if fleet_file is not None:
        agents = users or USERS_PER_REPLICA * make_plan(load_fleet(fleet_file)).totals.replicas
        output_tokens_per_s = closed_loop(agents, _pace(traffic))
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
        print_facts(
            (name.replace("_", " "), f"{value:,}") for name, value in found.items() if value
        )


def _pace(traffic: str) -> AgentPace:
    """Sample a profile at its real size; the words do not matter, only how many there are."""
    if traffic.startswith(TRACE_PREFIX):
        raise ConfigError(
            f"--traffic {traffic}: only profiles are sized without a tokenizer. "
            "Give a profile; `loadtest run` sizes a trace before it sends it."
        )
    words = Vocabulary(["a"], [0])
    seeds = Seeds(seed=1, salt="sizing")
    return pace_of(ProfileTraffic(load_profile(traffic), words, Scale(tokens=1, time=1), seeds))
