"""Say to the load generator what to send to a lab."""

from __future__ import annotations

from pathlib import Path

from fleet.errors import ConfigError
from lab.engines import mocked_engines
from lab.lab import Lab
from lab.ports import require_free_port
from lab.rehearsal import RehearsalOptions
from loadtest.cache.oracle import OracleRules
from loadtest.cache.release_rules import release_rules
from loadtest.judge.gates import gates_file
from loadtest.replay.formats import load_traces, parse_source
from loadtest.results.result_options import ResultOptions
from loadtest.settings import TRACE_PREFIX, LoadSettings
from loadtest.traffic.profiles import load_profile

USERS_PER_REPLICA = 2


def check_traffic(options: RehearsalOptions) -> None:
    """Raise ConfigError for traffic that could not be sent, before anything is started."""
    if options.users is not None and options.sessions_per_minute is not None:
        raise ConfigError("--users, --sessions-per-minute: both given. Choose one.")
    if options.traffic.startswith(TRACE_PREFIX):
        load_traces(parse_source(options.traffic.removeprefix(TRACE_PREFIX)))
    else:
        load_profile(options.traffic)
    if options.web_port is not None:
        require_free_port("127.0.0.1", options.web_port, "End what listens there.")


def load_settings(options: RehearsalOptions, lab: Lab, out_dir: Path) -> LoadSettings:
    """Build the generator's settings for a lab; two users per replica unless told."""
    users = options.users
    if users is None and options.sessions_per_minute is None:
        users = USERS_PER_REPLICA * lab.settings.plan.totals.replicas
    return LoadSettings(
        targets=lab.targets,
        model=lab.settings.model_name,
        tokenizer_dir=lab.settings.model_dir,
        block_size=lab.settings.fleet.release.block_size,
        traffic=options.traffic,
        users=users,
        sessions_per_minute=options.sessions_per_minute,
        duration_s=options.duration_s,
        token_scale=options.token_scale,
        time_scale=options.time_scale,
        seed=options.seed,
        out_dir=out_dir,
        gates_file=gates_file(options.gates),
        oracle=_oracle_rules(lab, options.token_scale),
        results=ResultOptions(
            metrics={
                region.name: pages for region in lab.regions if (pages := region.metrics_pages())
            }
        ),
        max_context=lab.settings.fleet.model.context_tokens // options.token_scale,
    )


def _oracle_rules(lab: Lab, token_scale: int) -> OracleRules:
    """Give the rules of the engines that run: mocked ones reuse blocks, whatever the release does.

    They hold as many blocks as the release's memory gives them.
    """
    fleet = lab.settings.fleet
    role = fleet.release.roles[0]  # where prefill is apart, it comes first
    engines = mocked_engines(fleet, token_scale)
    if fleet.release_id not in engines:
        return release_rules(fleet.model, fleet.hardware, fleet.release)
    return OracleRules(capacity_blocks=engines[fleet.release_id][role].blocks)
