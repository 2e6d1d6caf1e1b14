"""`k3fleet loadtest run`: send a load to a lab or an endpoint, and judge it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.loadtest_output import show_judged
from cli.loadtest_search import show_found
from cli.options import (
    DURATION,
    MAX_TOKEN_SCALE,
    SEED,
    TOKENS_PER_CHUNK,
    TOKENS_PER_S,
    FiniteRange,
)
from cli.output import output_option
from cli.wiring import loadtest_surroundings, surroundings
from cli.work_dir import work_dir_option
from fleet.errors import ConfigError
from fleet.load import load_fleet
from lab.load_target import LoadTarget, endpoint_target, lab_target
from lab.load_test import LoadOptions, load_test
from lab.rehearsal import Surroundings
from loadtest.play.stages import Stage, load_stages
from loadtest.settings_file import Parts, load_of, read_parts
from loadtest.url_faults import shown_url

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_PAIR = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,62})=(\S+)")
FOLDER = "loadtests"

_TARGET_OPTIONS = (
    click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="REGION=URL",
        help="An endpoint instead of a lab: base URL without /v1. Repeat it for more regions.",
    ),
    click.option("--model", help="Name of the model at the endpoint."),
    click.option(
        "--tokenizer",
        "tokenizer_dir",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of the model's tokenizer.json, as beside its weights. An endpoint needs it.",
    ),
    click.option(
        "--block-size", type=click.IntRange(1), help="Tokens per block of the prefix cache."
    ),
    click.option(
        "--api-key-file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File that holds the API key alone.",
    ),
)
_RESULT_OPTIONS = (
    click.option(
        "--metrics", multiple=True, metavar="REGION=URL",
        help="Prometheus page of a frontend or engine, to cross-check with. Repeat it.",
    ),
    click.option(
        "--gpus", multiple=True, metavar="REGION=N", help="GPUs that serve a region. Repeat it."
    ),
)  # fmt: skip
_LOAD_OPTIONS = (
    click.option(
        "--traffic",
        metavar="PROFILE|FILE.yaml|trace:[FORMAT:]PATH",
        default="interactive_agent",
        show_default=True,
        help="Traffic profile, or recorded sessions to replay.",
    ),
    click.option("--users", type=click.IntRange(1), help="Closed loop: agents at work at once."),
    click.option(
        "--sessions-per-minute",
        type=FiniteRange(0, 60_000, min_open=True),
        help="Open loop: new sessions arrive at this rate.",
    ),
    click.option(
        "--duration", "duration_s", type=DURATION,
        help="Length of the load, e.g. 90s or 5m. Default: 60s.",
    ),
    click.option(
        "--stages", "stages_file", metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Load that changes: warm-up, ramp, soak, burst, drain. Instead of the three above.",
    ),
    click.option(
        "--search", is_flag=True,
        help="Find the most agents within the limits of the gates, or of `search` in --settings.",
    ),
    click.option("--seed", type=SEED, default=1, show_default=True, help="Of the traffic."),
    click.option(
        "--token-scale", type=FiniteRange(1, MAX_TOKEN_SCALE), help="Divide lengths by this."
    ),
    click.option("--time-scale", type=FiniteRange(1, 1_000_000), help="Divide pauses by this."),
)  # fmt: skip
_RUN_OPTIONS = (
    click.option(
        "--settings", "settings_file", metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="YAML or JSON with what the options lack: harness, replay, session, client, oracle, "
        "results, search. See docs/loadtest.md.",
    ),
    click.option(
        "--gates",
        metavar="NAME|FILE",
        help="rehearsal, endpoint, launch, drained, or a file. Default: the first for a lab, "
        "the second for an endpoint.",
    ),
    click.option(
        "--processes", type=click.IntRange(1, 512), default=1, show_default=True,
        help="Worker processes that make the load, one core each.",
    ),
    click.option(
        "--tokens-per-chunk", type=TOKENS_PER_CHUNK, default=1.0, show_default=True,
        help="More than 1 with speculation; decides how many processes are needed.",
    ),
    click.option(
        "--output-tokens-per-s", type=TOKENS_PER_S,
        help="What the target will make, if you know. Default: estimated from the traffic.",
    ),
    click.option(
        "--force-undersized", is_flag=True, help="Run with too few processes; the run is marked."
    ),
    click.option(
        "--web-port", type=click.IntRange(1, 65_535),
        help="Show Locust's web UI there, on loopback, and let it decide when to stop.",
    ),
    click.option(
        "--out", "out_dir", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
        help="A new folder for all files. Default: one below the work folder.",
    ),
)  # fmt: skip
_OF_TARGET = (
    "targets", "model", "tokenizer_dir", "block_size", "api_key_file", "metrics", "gpus"
)  # fmt: skip
_OF_SETTINGS = (
    "traffic", "users", "sessions_per_minute", "duration_s", "seed", "token_scale", "time_scale"
)  # fmt: skip


def _with(
    *groups: tuple[Callable[[FunctionT], FunctionT], ...],
) -> Callable[[FunctionT], FunctionT]:
    def decorate(command: FunctionT) -> FunctionT:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


@click.command()
@click.argument("fleet_file", required=False, type=click.Path(path_type=Path))
@_with(_TARGET_OPTIONS, _RESULT_OPTIONS, _LOAD_OPTIONS, _RUN_OPTIONS)
@work_dir_option
@output_option
def run(fleet_file: Path | None, work_dir: Path | None, output: str, **given: Any) -> None:
    """Send a load to the running lab of FLEET_FILE, or to any endpoint, and judge it.

    Ctrl-C ends the load; what there is is judged. Exit code 0 is go, 1 no-go, 2 could not be
    judged, 3 configuration.

    \b
    Example:
        k3fleet loadtest run fleets/demo.yaml --duration 5m
        k3fleet loadtest run --target eu=https://llm.example --model kimi-k3 \\
            --tokenizer ~/kimi-k3 --api-key-file ~/.key --users 50 --processes 4
        k3fleet loadtest run fleets/demo.yaml --search
    """
    parts = read_parts(given["settings_file"]) if given["settings_file"] else {}
    stages = _stages(given, load_of(parts))
    target, around, folder = _target(fleet_file, work_dir, given, parts)
    started = f"{around.now():%Y%m%d-%H%M%S-%f}"
    options = LoadOptions(
        settings={**{name: given[name] for name in _OF_SETTINGS}, "stages": stages},
        out_dir=(given["out_dir"] or folder / FOLDER / started).absolute(),
        parts=parts,
        searches=given["search"],
        gates=given["gates"],
        processes=given["processes"],
        web_port=given["web_port"],
        tokens_per_chunk=given["tokens_per_chunk"],
        output_tokens_per_s=given["output_tokens_per_s"],
        force_undersized=given["force_undersized"],
    )
    judged = load_test(target, options, around)
    if judged.run.settings.search is not None:
        show_found(options.out_dir, output)
    show_judged(judged, options.out_dir, output)


def _target(
    fleet_file: Path | None, work_dir: Path | None, given: Mapping[str, Any], parts: Parts
) -> tuple[LoadTarget, Surroundings, Path]:
    """Choose between a fleet's lab and an endpoint."""
    if fleet_file is not None:
        for name in _OF_TARGET:
            if given[name]:
                option = name.replace("targets", "target").removesuffix("_dir").replace("_", "-")
                raise ConfigError(
                    f"--{option}: the running lab of {fleet_file} decides that. "
                    "Leave it out, or leave out the fleet file."
                )
        fleet = load_fleet(fleet_file)
        around = surroundings(fleet, work_dir)
        return lab_target(fleet, around.work_dir), around, around.work_dir
    around = loadtest_surroundings(work_dir)
    return _endpoint(given, parts), around, around.work_dir


def _stages(given: Mapping[str, Any], in_file: str | None) -> tuple[Stage, ...] | None:
    """Read the shape of the load, and refuse two loads at once."""
    load = {name: given[name] for name in ("users", "sessions_per_minute", "stages_file")}
    named = [f"--{name.removesuffix('_file')}" for name, value in load.items() if value is not None]
    if given["search"]:
        named.append("--search")
    if in_file and not (given["search"] and in_file == "search"):
        named.append(f"{in_file} in --settings")
    if len(named) > 1:
        raise ConfigError(f"{', '.join(named).replace('_', '-')}: both given. Choose one.")
    if given["duration_s"] is not None and (given["search"] or in_file == "search"):
        raise ConfigError("--duration: a search ends when it has found the limit. Leave it out.")
    if given["stages_file"] is None:
        return None
    if given["duration_s"] is not None:
        raise ConfigError("--duration: the stages say how long they are. Leave it out.")
    return load_stages(given["stages_file"])


def _endpoint(given: Mapping[str, Any], parts: Parts) -> LoadTarget:
    targets = _targets(given["targets"])
    loads = ("users", "sessions_per_minute", "stages_file", "search")
    missing = []
    if not (any(given[name] for name in loads) or load_of(parts)):
        missing.append(
            "--users: how much load an endpoint can take nobody told. "
            "Give --users N, --sessions-per-minute R, --stages FILE or --search."
        )
    for name, option in (("model", "--model NAME"), ("tokenizer_dir", "--tokenizer DIR")):
        if given[name] is None:
            missing.append(f"{option.split()[0]}: is needed for an endpoint. Give {option}.")
    if missing:
        raise ConfigError("\n".join(missing))
    known = ("model", "tokenizer_dir", "api_key_file")
    settings = {name: given[name] for name in known if given[name] is not None}
    settings["results"] = _results(given, targets)
    for name in settings["results"].keys() & parts.get("results", {}):
        raise ConfigError(f"--{name}, results.{name} in --settings: both given. Choose one.")
    return endpoint_target(targets, settings, block_size=given["block_size"])


def _results(given: Mapping[str, Any], targets: Mapping[str, str]) -> dict[str, Any]:
    """Read what an endpoint is measured against; each region must be a target."""
    metrics: dict[str, tuple[str, ...]] = {}
    for region, url in _pairs("--metrics", given["metrics"]):
        metrics[region] = (*metrics.get(region, ()), url)
    gpus = dict(_pairs("--gpus", given["gpus"]))
    for option, regions in (("--metrics", metrics.keys()), ("--gpus", gpus.keys())):
        if unknown := sorted(regions - targets.keys()):
            raise ConfigError(
                f"{option} {unknown[0]}: is no region of --target. Known: {', '.join(targets)}."
            )
    return {name: value for name, value in (("metrics", metrics), ("gpus", gpus)) if value}


def _pairs(option: str, words: tuple[str, ...]) -> list[tuple[str, str]]:
    found = [(word, _PAIR.fullmatch(word)) for word in words]
    for word, pair in found:
        if pair is None:
            raise ConfigError(
                f"{option} {shown_url(word)}: is no pair of a name and a value. "
                f"Give them as in --target eu=https://llm.example or --gpus eu=72."
            )
    return [(pair[1], pair[2]) for _, pair in found if pair is not None]


def _targets(words: tuple[str, ...]) -> dict[str, str]:
    if not words:
        raise ConfigError(
            "FLEET_FILE: no target is given. Give the fleet file of a running lab, "
            "or --target REGION=URL."
        )
    targets: dict[str, str] = {}
    for region, url in _pairs("--target", words):
        if region in targets:
            raise ConfigError(
                f"--target {region}: is given twice. Give each region a name of its own."
            )
        targets[region] = url.rstrip("/")
    return targets
