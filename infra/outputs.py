"""Define what each layer's stack tells its readers.

Written with `pulumi.export`, read by `k3fleet outputs` and by StackReferences.
Nothing here is a secret: outputs are stored and printed in clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fleet.errors import ConfigError
from infra.settings import StackLayer


class Outputs(BaseModel):
    """Outputs of a stack; a newer k3fleet may have added some, which are left aside.

    What may be None has that as its default: the engine does not store outputs that are null.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=False)


OutputsT = TypeVar("OutputsT", bound=Outputs)


class GlobalOutputs(Outputs):
    """What the whole fleet shares. None: the fleet file does not ask for it."""

    fleet: str
    weights_bucket: str | None = None
    weights_buckets: dict[str, str] = {}  # AWS region -> bucket, the source's too
    weights_key: str | None = None  # ARN of the KMS key; its replicas differ in the region only
    endpoint: str | None = None  # the name that all gateways answer to
    registries: dict[str, str] = {}  # AWS region -> host of the registry with the caches


class ClusterOutputs(Outputs):
    """One region's cluster."""

    region: str
    cloud: str
    cluster_name: str
    endpoint: str | None = None  # https://…; None: only the kubeconfig says
    ca: str | None = None  # the public certificate, base64 of PEM; None: only the kubeconfig says
    racks: dict[str, str]  # rack id -> name of its node group, pool or label value
    kubeconfig_command: tuple[str, ...]  # words of a command that gets a kubeconfig; no token


class PlatformOutputs(Outputs):
    """What a region's replicas stand on."""

    region: str
    namespace: str
    cluster_uid: str | None = None  # of the kube-system namespace: which cluster this stack is of


class ServingOutputs(Outputs):
    """What a region runs."""

    region: str
    namespace: str
    cluster_uid: str | None = None  # as of the platform
    serial: int
    releases: dict[str, str]  # replica -> release id
    shared: str | None = None  # release id of frontends and gateway


class Remembered(Outputs):
    """What every stack in a cluster is asked before it is changed; without a value: never up."""

    cluster_uid: str | None = None
    serial: int = 0  # of the assignment
    releases: dict[str, str] = {}  # replica -> release id
    shared: str | None = None  # release id of frontends and gateway


MODELS: Mapping[StackLayer, type[Outputs]] = {
    "global": GlobalOutputs,
    "cluster": ClusterOutputs,
    "platform": PlatformOutputs,
    "serving": ServingOutputs,
}


def read_outputs(layer: StackLayer, stack: str, values: Mapping[str, object]) -> Outputs:
    """Check a stack's outputs; raise ConfigError naming the stack and the first fault."""
    if not values:
        raise ConfigError(f"stack {stack}: no outputs. Run `k3fleet up --layer {layer}` first.")
    fix = f"It was written by another k3fleet: run `k3fleet up --layer {layer}`."
    return _checked(MODELS[layer], stack, values, fix)


def read_remembered(stack: str, values: Mapping[str, object]) -> Remembered:
    """Check what a stack is asked before it is changed; raise ConfigError for the first fault."""
    fix = (
        "Use the k3fleet that wrote it, or import a whole version of the state with "
        "`pulumi stack import`; nothing was changed."
    )
    return _checked(Remembered, stack, values, fix)


def _checked(model: type[OutputsT], stack: str, values: Mapping[str, object], fix: str) -> OutputsT:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"stack {stack}: output {key}: {first['msg']}. {fix}") from error
