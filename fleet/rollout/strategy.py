"""Define the strategy file: in which order a release goes out, how fast, behind which gates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from fleet.errors import ConfigError
from fleet.schema import Bytes, Count, FileModel, Positive, Seconds, Text, refuse, validate
from fleet.yaml_document import read_document

# In the order of a launch; what a wave takes is what the waves before it left.
WaveScope = Literal["canary", "canary-rack", "rack-per-region", "rest"]
SCOPES: tuple[WaveScope, ...] = ("canary", "canary-rack", "rack-per-region", "rest")
Share = Annotated[float, Strict(), Field(ge=0, le=1)]
ErrorRate = Annotated[float, Strict(), Field(ge=0, lt=1)]


class Gates(FileModel):
    """What has to hold on live traffic before the next step, over at least `min_requests`."""

    min_requests: Positive = 200
    # Answers of the step's replicas, and of the others, in a window that compares them.
    min_replica_requests: Positive = 20
    max_error_rate: ErrorRate = 0.005
    # Against the replicas that still run the old release, in the same minutes.
    max_ttft_ratio: Annotated[float, Strict(), Field(ge=1)] = 1.25
    # A new replica starts with an empty cache: a dip is the price, and has to be back in time.
    max_hit_dip: Share = 0.15
    hit_recovery_s: Seconds = Field(default=900.0, alias="hit_recovery")
    # Chat-template markers in an answer, and answers without content, are wrong at any rate.
    # Counted in our own questions to each replica of the step: nothing reads users' answers.
    max_marker_leaks: Count = 0
    max_empty_answers: Count = 0


class WaveSpec(FileModel):
    """One wave: which replicas, and what has to hold before the next one starts."""

    scope: WaveScope = Field(description="canary, canary-rack, rack-per-region or rest")
    soak_s: Seconds = Field(default=300.0, alias="soak")
    gates: Gates = Gates()


class Pace(FileModel):
    """How many replicas may be away at the same time."""

    per_rack: Positive = 1
    per_region: Positive = 2
    regions: Positive = 1


class Floor(FileModel):
    """Least share of the replicas that serves at any moment, in each rack and each region."""

    rack: Share = 0.75
    region: Share = 0.85


class Deadlines(FileModel):
    """How long a part of a step may take before it counts as failed."""

    # Weights are read and kernels are made in it: the start-up probe of a replica has two hours.
    ready_s: Seconds = Field(default=7200.0, alias="ready")
    registered_s: Seconds = Field(default=300.0, alias="registered")
    gates_s: Seconds = Field(default=3600.0, alias="gates")


class Assumed(FileModel):
    """What the estimate assumes of one replica's start; measure yours and write it down."""

    # Kimi K3 from local NVMe in about five minutes (half of the weights on each of two nodes).
    load_bytes_per_s: Annotated[Bytes, Field(ge=1)] = Field(
        default=2_600_000_000, alias="load_rate"
    )
    warm_up_s: Seconds = Field(default=420.0, alias="warm_up")  # graphs, kernels and autotuning
    # Share of the drain budget that is used: most streams end long before the last one.
    drain_share: Share = 1.0
    # Preflight, assignment and Pulumi, of one region: 4 s of CPU, and what the API server takes.
    update_s: Seconds = Field(default=10.0, alias="update")
    # From Ready until all frontends have it.
    register_s: Seconds = Field(default=5.0, alias="register")
    # Our own: a chat and two rounds of five questions, one of them with reasoning.
    questions_s: Seconds = Field(default=30.0, alias="questions")
    # Of one replica: 260 sessions that send a request each 78 s (public traces of agents).
    requests_per_s: Annotated[float, Strict(), Field(gt=0)] = 3.3
    # Of those, what a replica gets while its gates watch: its sessions have gone elsewhere, and
    # new ones come at the pace at which sessions end. Not measured on a fleet.
    returning_share: Annotated[float, Strict(), Field(gt=0, le=1)] = 0.25
    sessions_per_replica: Count = 260
    context_tokens: Positive = 110_000
    prefill_tokens_per_s: Positive = 15_000  # of one replica


class Strategy(FileModel):
    """The whole strategy file; every key has a default that is fit for production."""

    api_version: Literal["k3fleet/v1"] = Field(default="k3fleet/v1", alias="apiVersion")
    waves: tuple[WaveSpec, ...] = Field(
        default=(
            WaveSpec(scope="canary", soak_s=900.0),
            WaveSpec(scope="canary-rack"),
            WaveSpec(scope="rack-per-region"),
            WaveSpec(scope="rest"),
        ),
        min_length=1,
        description="waves with a scope",
    )
    at_once: Pace = Pace()
    floor: Floor = Floor()
    deadlines: Deadlines = Deadlines()
    on_fail: Literal["hold", "roll-back"] = "hold"
    # A gate without enough data is asked again so often, then somebody is called.
    reruns: Count = 2
    webhook: Text | None = None  # where events go, by POST; never a secret
    assumed: Assumed = Assumed()

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        scopes = [wave.scope for wave in self.waves]
        if scopes != [scope for scope in SCOPES if scope in scopes]:
            raise refuse(
                f"waves: {', '.join(scopes)} is not in order, or one comes twice",
                f"Keep the order {', '.join(SCOPES)}; leave out what you do not want",
            )
        if scopes[-1] != "rest":
            raise refuse(
                f"waves end with {scopes[-1]}, so some replicas would never be updated",
                "Add a last wave with scope: rest",
            )
        return self


def load_strategy(path: Path | None) -> Strategy:
    """Read a strategy file, or give the defaults; raise ConfigError with every problem."""
    if path is None:
        return Strategy()
    strategy, problems = validate(Strategy, read_document(path))
    if strategy is None:
        raise ConfigError.of(problems)
    return strategy
