"""Define the fleet file: what a team writes down about its racks.

Only what the team decides is in it. Model, hardware and release facts live in
their own files, which a fleet file names.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fleet.api_version import newer_fault
from fleet.folders import folder_fault, host_folder_fault
from fleet.global_spec import GlobalSpec
from fleet.operators_spec import OperatorsSpec
from fleet.region_spec import RegionSpec
from fleet.router import RouterSpec
from fleet.schema import (
    AtLeastASecond,
    Count,
    DnsLabel,
    FileModel,
    PinnedImage,
    Positive,
    Text,
    check_dns_label,
    found_text,
    refuse,
    suggestion,
)
from fleet.state_spec import StateSpec
from fleet.weights_spec import WeightsSpec


def _namespace(text: str) -> str:
    check_dns_label(text)
    if text == "default" or text.startswith("kube-"):
        raise refuse(
            f"{found_text(text)} belongs to the cluster", "Give k3fleet a namespace of its own"
        )
    return text


def _folder_path(text: str) -> str:
    if fault := folder_fault(text):
        raise refuse(*fault)
    return text


def _host_folder(text: str) -> str:
    if fault := host_folder_fault(text):
        raise refuse(*fault)
    return text


def _traffic(text: str) -> str:
    for prefix in (TRACE_PREFIX, PROFILE_PREFIX):
        if text.startswith(prefix):
            if not text.removeprefix(prefix).strip():
                raise refuse(
                    f"{found_text(text)} names no file", f"Write {prefix}PATH, in the image"
                )
            return text
    if text not in TRAFFIC_PROFILES:
        known = suggestion(text, TRAFFIC_PROFILES)
        raise refuse(
            f"{found_text(text)} is no profile",
            f"{known}, profile:PATH for one of your own, or trace:PATH for recorded sessions",
        )
    return text


def _gateway_port(port: int) -> int:
    if port == GATEWAY_ADMIN_PORT:
        raise refuse(f"{port} is the port of Envoy's own pages", "Give another, for example 8080")
    return port


def _quoted_version(value: object) -> object:
    if isinstance(value, float):
        raise refuse(f"expected text, found the number {value}", f'Write "{value}", in quotes')
    return value


def _not_newer(version: object) -> object:
    if fault := newer_fault(version):
        raise refuse(*fault)
    return version


def _rule_id(text: str) -> str:
    if not re.fullmatch(r"[A-Z][0-9]{3}", text):
        raise refuse(f"{found_text(text)} is no rule", "Name one, for example K003")
    return text


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # fromisoformat takes 2027-W04-7 too


def _date(value: object) -> object:
    text = value if isinstance(value, str) and _DATE.fullmatch(value) else ""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise refuse(f"{found_text(value)} is no date", "Write it as 2027-01-31") from error


FolderPath = Annotated[str, AfterValidator(_folder_path)]
Traffic = Annotated[str, AfterValidator(_traffic)]
HostFolder = Annotated[str, AfterValidator(_host_folder)]
Namespace = Annotated[str, AfterValidator(_namespace)]
Backend = Literal["lws", "dgd"]
# What the linter has schemas for.
Kubernetes = Literal["1.34", "1.35", "1.36", "1.37"]
DEFAULT_KUBERNETES: Kubernetes = "1.37"
DEFAULT_MODEL = "kimi-k3"
DEFAULT_HARDWARE = "gb300-nvl72"
Port = Annotated[Positive, Field(le=65_535)]
GATEWAY_ADMIN_PORT = 9901  # Envoy's usual one; on 127.0.0.1 of the pod
# What `loadtest/traffic/profiles` holds, and how files are named; a test compares the two.
TRAFFIC_PROFILES = (
    "autonomous_agent",
    "burst",
    "chat_assist",
    "cold_launch",
    "image",
    "interactive_agent",
    "needle_1m",
)
TRACE_PREFIX = "trace:"
PROFILE_PREFIX = "profile:"
# Far above what 200 racks need, far below what Kubernetes counts to; the autoscaler adds to it.
MAX_PODS = 1000
MAX_WORKERS = 10_000
MAX_USERS = 10_000_000


class FrontendSpec(FileModel):
    """The Dynamo frontends of each region."""

    replicas: Annotated[Positive, Field(le=MAX_PODS)] = 2


class GatewaySpec(FileModel):
    """The Envoy gateway of each region."""

    replicas: Annotated[Positive, Field(le=MAX_PODS)] = 1
    port: Annotated[Port, AfterValidator(_gateway_port)] = 8080


class SecretsSpec(FileModel):
    """Names of Secrets in the fleet's namespace; never what is in them.

    With `external_store` (a ClusterSecretStore of the External Secrets operator) each
    one is fetched from the store's key of the same name; else somebody makes them.
    """

    image_pull: DnsLabel | None = None  # type kubernetes.io/dockerconfigjson
    hf_token: DnsLabel | None = None  # key HF_TOKEN; only the weights stage gets it
    # Key keys.yaml: who may use the gateways (docs/region-objects.md). None: everybody.
    gateway_keys: DnsLabel | None = None
    loadtest_key: DnsLabel | None = None  # key api-key: what the load generator shows a gateway
    external_store: DnsLabel | None = None

    @model_validator(mode="after")
    def _one_name_each(self) -> Self:
        """Refuse names used twice: the fetched Secrets would overwrite each other."""
        if self.external_store is None:
            return self
        uses: dict[str, list[str]] = {}
        for use in ("image_pull", "hf_token", "gateway_keys", "loadtest_key"):
            if (name := getattr(self, use)) is not None:
                uses.setdefault(name, []).append(use)
        shared = [
            f"{' and '.join(users)} are both called {name}"
            if len(users) == 2
            else f"{', '.join(users)} are all called {name}"
            for name, users in uses.items()
            if len(users) > 1
        ]
        if shared:
            what = f"{'; '.join(shared)}; fetched into one Secret they overwrite each other"
            raise refuse(what, "Give each a name of its own, which is its key in the store too")
        return self


class SchedulingSpec(FileModel):
    """Who places pods. The default scheduler is enough: replicas are pinned to their rack."""

    gang: Literal["none", "kai", "volcano"] = "none"
    queue: DnsLabel | None = None  # of KAI or Volcano
    kueue_queue: DnsLabel | None = None  # a LocalQueue, where the cluster is shared with batch


class WeightsStageSpec(FileModel):
    """How weights get onto the nodes' own disks."""

    image: PinnedImage  # holds `hf`, python3 and a shell
    # Revisions kept beside those that run: the way back needs the previous one.
    keep_previous: Annotated[Count, Field(le=100)] = 1


class NodeReportSpec(FileModel):
    """Pods that say what each node of a rack is made of, for `k3fleet racks preflight`."""

    image: PinnedImage  # holds python3
    # Whose disks are looked at; None: where weights lie.
    folder: HostFolder | None = None
    # With it nvidia-smi is asked too: the RuntimeClass of NVIDIA's container runtime.
    runtime_class: DnsLabel | None = None


class KernelCacheSpec(FileModel):
    """Where engines keep what they compile at start, per image, GPU and TP."""

    path: HostFolder | None = None  # on every node
    claim: DnsLabel | None = None  # or a PersistentVolumeClaim that all nodes can mount

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.claim is None):
            raise refuse("expected one place", "Give either path or claim")
        return self


class LoadtestSpec(FileModel):
    """A Locust master and workers in each region, for load from inside the cluster."""

    image: PinnedImage  # holds k3fleet and its requirements
    folder: FolderPath = "/opt/k3fleet"  # where the image holds it
    tokenizer_dir: FolderPath = Field(
        description="folder of the image with the model's tokenizer.json"
    )
    # One core each; a core reads 5,000 chunks per second.
    workers: Annotated[Positive, Field(le=MAX_WORKERS)] = 4
    # Agents that work at once; None: two per replica.
    users: Annotated[Positive, Field(le=MAX_USERS)] | None = None
    # A profile, or trace:PATH in the image.
    traffic: Traffic = "interactive_agent"
    duration_s: AtLeastASecond = Field(default=600.0, alias="duration")
    results_claim: DnsLabel | None = None  # None: results go with their pods


class WaiverSpec(FileModel):
    """Findings of one rule that the team accepts until a day."""

    rule: Annotated[str, AfterValidator(_rule_id)] = Field(
        description="the rule's id, for example K003"
    )
    object: Text = "*"  # pattern of `Kind namespace/name`
    reason: Text = Field(description="why the finding is accepted")
    expires: Annotated[date, BeforeValidator(_date)] = Field(
        description="the last day on which it counts, for example 2027-01-31"
    )


class LintSpec(FileModel):
    """What `k3fleet lint` is told."""

    waivers: tuple[WaiverSpec, ...] = ()


class FleetSpec(FileModel):
    """The whole fleet file."""

    api_version: Annotated[Literal["k3fleet/v1"], BeforeValidator(_not_newer)] = Field(
        alias="apiVersion", description="k3fleet/v1"
    )
    name: DnsLabel = Field(description="a DNS label, for example demo")
    model: Text = DEFAULT_MODEL
    hardware: Text = DEFAULT_HARDWARE
    release: Text = Field(description="a preset, for example vllm-tp8-dcp8, or a path")
    namespace: Namespace = "k3"
    router: RouterSpec | None = None  # None: the release's
    frontends: FrontendSpec = FrontendSpec()
    gateway: GatewaySpec = GatewaySpec()
    backend: Backend = "lws"
    secrets: SecretsSpec = SecretsSpec()
    scheduling: SchedulingSpec = SchedulingSpec()
    monitoring: Literal["prometheus-operator", "none"] = "prometheus-operator"
    weights_stage: WeightsStageSpec | None = None  # None: somebody else puts weights there
    node_report: NodeReportSpec | None = None  # None: nobody asks the nodes
    weights: WeightsSpec | None = None  # None: no buckets of weights are kept
    operators: OperatorsSpec = OperatorsSpec()  # default: somebody else installs them
    kernel_cache: KernelCacheSpec | None = None  # None: compiled anew at each start
    loadtest: LoadtestSpec | None = None  # None: no load generator in the clusters
    # Version of the clusters' API servers; what is rendered is the same for all of them.
    kubernetes: Annotated[Kubernetes, BeforeValidator(_quoted_version)] = DEFAULT_KUBERNETES
    lint: LintSpec = LintSpec()
    state: StateSpec = StateSpec()
    # `global` is a word of Python. None: nothing is shared, there is no global stack.
    global_spec: GlobalSpec | None = Field(default=None, alias="global")
    regions: tuple[RegionSpec, ...] = Field(
        min_length=1, description="a list of regions with name and racks"
    )


def kubernetes_version(text: Kubernetes) -> tuple[int, int]:
    """Split a version, so that two of them compare as numbers."""
    major, minor = text.split(".")
    return int(major), int(minor)
