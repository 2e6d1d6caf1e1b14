"""What must agree between frontends and engines, or cache routing is lost without a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fleet.units import whole_number
from infra.lint.commands import Command
from infra.lint.manifest import Manifest
from infra.lint.pods import Workload
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.selectors import ranks, selects
from infra.lint.sides import Side, sides

_BACKEND = "nvidia.com/dynamo-discovery-backend"
_ENABLED = "nvidia.com/dynamo-discovery-enabled"
_AFFINITY = ("--router-session-affinity-ttl-secs", "--router-session-affinity-mode")
# Engine flags whose value is the number of tokens in one hash of a prefix.
_HASH_UNITS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("--prefix-match-unit", "--block-size"),
    "sglang": ("--page-size",),
}


def _namespace(workload: Workload, command: Command) -> str | None:
    """Return the Dynamo namespace; None where only the cluster knows it."""
    env = command.env
    graph = workload.manifest.kind == "DynamoGraphDeployment"
    if command.has("--namespace"):  # stronger than any variable
        return command.given.text("--namespace")
    stated = env.get("DYN_NAMESPACE_PREFIX") or env.get("DYN_NAMESPACE")
    if stated is None and graph:
        return f"the graph {workload.manifest.name}"
    if stated is None:
        return None if "DYN_NAMESPACE" in env else "dynamo"
    if graph and command.is_engine and env.get("DYN_NAMESPACE_WORKER_SUFFIX") != "":
        return f"{stated}, with a suffix of the graph {workload.manifest.name}"
    return stated


def _namespaces(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        if not side.frontends:
            yield from _split_groups(side)
            continue
        workers = [(*item, _namespace(*item)) for item in side.workers]
        counts = Counter(found for _, _, found in workers if found)
        looked = {_looks_in(command) for _, command in side.frontends}
        # Frontends of their own for each set of engines are meant so: no one draws between them.
        exact = looked if None not in looked and not any(map(_draws, side.frontends)) else set()
        usual = max(counts, key=lambda name: (name in looked, counts[name]), default=None)
        for workload, command, found in workers:
            if found is not None and found != usual and found not in exact:
                what = f"this engine is in {found}, others of the region are in {usual}"
                yield Spot(workload.manifest, command.container.path, what)
        yield from _looking_elsewhere(side)


def _split_groups(side: Side) -> Iterator[Spot]:
    """Find ranks of one group in two namespaces: wrong whatever the frontends do."""
    first: dict[int, str | None] = {}
    for workload, command in side.workers:
        found = _namespace(workload, command)
        usual = first.setdefault(id(workload.manifest), found)
        if None not in (found, usual) and found != usual:
            what = f"this rank is in {found}, the first of its group in {usual}"
            yield Spot(workload.manifest, command.container.path, what)


def _looking_elsewhere(side: Side) -> Iterator[Spot]:
    """Find frontends that name a namespace in which no engine is; graphs have prefixes."""
    if any(workload.manifest.kind == "DynamoGraphDeployment" for workload, _ in side.workers):
        return
    engines = {_namespace(*item) for item in side.workers}
    for workload, command in side.frontends:
        named = _looks_in(command)
        known = engines and None not in engines and named and "$" not in named
        if known and named not in engines and not _looks_by_prefix(command):
            what = f"this frontend looks in {named}, the engines are in "
            what += ", ".join(sorted(map(str, engines)))
            yield Spot(workload.manifest, command.container.path, what)


def _looks_in(command: Command) -> str | None:
    return command.given.text("--namespace") or command.env.get("DYN_NAMESPACE")


def _draws(frontend: tuple[Workload, Command]) -> bool:
    """Tell whether a frontend may see more namespaces than the one that it names."""
    return _looks_by_prefix(frontend[1]) or _looks_in(frontend[1]) == "dynamo"


def _looks_by_prefix(command: Command) -> bool:
    return command.has("--namespace-prefix") or "DYN_NAMESPACE_PREFIX" in command.env


def _backends(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        kinds = {_discovery(*item) for item in side.frontends}
        for workload, command in side.workers:
            found = _discovery(workload, command)
            if kinds and found not in kinds:
                what = f"it registers in {found}, the frontends look in {', '.join(sorted(kinds))}"
                yield Spot(workload.manifest, command.container.path, what)


def _discovery(workload: Workload, command: Command) -> str:
    graph = workload.manifest.kind == "DynamoGraphDeployment"
    default = "kubernetes" if graph else "etcd"
    if graph:
        stated = workload.manifest.annotations.get("nvidia.com/dynamo-discovery-backend")
        default = stated or default
    if command.has("--discovery-backend"):
        return command.given.text("--discovery-backend") or default
    return command.env.get("DYN_DISCOVERY_BACKEND") or default


def _discovery_service(scene: Scene) -> Iterator[Spot]:
    services: dict[str, list[Manifest]] = {}
    for item in scene.of("Service"):
        if item.labels.get(_BACKEND) == "kubernetes" and item.labels.get(_ENABLED) == "true":
            services.setdefault(item.region, []).append(item)
    for region, side in sides(scene).items():
        for workload, command in side.workers:
            if workload.manifest.kind == "DynamoGraphDeployment":  # the operator makes its own
                continue
            if _discovery(workload, command) != "kubernetes" or not side.frontends:
                continue
            leaders = [rank for rank in ranks(workload) if rank.is_leader]
            if not any(
                selects(service.at("spec", "selector"), rank.labels) is not False
                for service in services.get(region, ())
                for rank in leaders
            ):
                what = "no Service with Dynamo's discovery labels selects it"
                yield Spot(workload.manifest, command.container.path, what)
                break


def _block_sizes(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        for workload, frontend in side.frontends:
            found = frontend.find("--kv-cache-block-size")
            block = whole_number(found.text) if found else None
            if found is None or block is None:
                continue
            units = {unit for _, command in side.workers if (unit := _hash_unit(command))}
            if units and block not in units:
                what = f"blocks of {found.text} tokens, but the engines hash {_listed(units)}"
                yield Spot(workload.manifest, found.path, what)


def _hash_unit(command: Command) -> int | None:
    return whole_number(command.value(*_HASH_UNITS.get(command.engine or "", ("",))))


def _listed(units: set[int]) -> str:
    return " or ".join(map(str, sorted(units)))


def _router_mode(command: Command) -> str:
    mode = command.value("--router-mode") or command.container.env.get("DYN_ROUTER_MODE")
    return mode or "round-robin"


def _no_events(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        if not any(_router_mode(command) == "kv" for _, command in side.frontends):
            continue
        if any(command.has("--no-router-kv-events") for _, command in side.frontends):
            continue
        for workload, command in side.workers:
            decodes = command.value("--disaggregation-mode") == "decode"
            if command.engine in ("vllm", "sglang") and not decodes and not _publishes(command):
                what = "the router looks for KV events, and this engine publishes none"
                yield Spot(workload.manifest, command.container.path, what)


def _publishes(command: Command) -> bool:
    flag = "--kv-events-config"
    if not command.has(flag):
        return False
    enabled = command.given.keys(flag).get("enable_kv_cache_events", True)
    return command.engine == "sglang" or str(enabled).lower() != "false"


def _events_unread(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        for workload, command in side.frontends:
            found = command.find("--router-kv-events")
            if found and _router_mode(command) != "kv":
                what = f"KV events are asked for, but the router's mode is {_router_mode(command)}"
                yield Spot(workload.manifest, found.path, what)


def _no_affinity(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        copies = max(_copies(side.workers).values(), default=0)
        for workload, command in side.frontends:
            if copies > 1 and not command.has(*_AFFINITY) and _router_mode(command) != "kv":
                what = f"{copies} engines, routed by {_router_mode(command)}, without affinity"
                yield Spot(workload.manifest, command.container.path, what)


def _copies(workers: list[tuple[Workload, Command]]) -> Counter[str]:
    """Count the engines of each role; a workload is one, whatever its templates."""
    roles = {
        workload: command.value("--disaggregation-mode") or "aggregated"
        for workload, command in workers
    }
    copies: Counter[str] = Counter()
    for workload, role in roles.items():
        copies[role] += workload.replicas or 1
    return copies


def _half_disaggregated(scene: Scene) -> Iterator[Spot]:
    for side in sides(scene).values():
        roles: dict[str, tuple[Workload, Command]] = {}
        for workload, command in side.workers:
            mode = command.value("--disaggregation-mode")
            if mode in ("prefill", "decode"):
                roles.setdefault(mode, (workload, command))
        if len(roles) == 1 and side.frontends:
            ((mode, (workload, command)),) = roles.items()
            what = f"there are {mode} workers only"
            yield Spot(workload.manifest, command.container.path, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="X001",
        severity="error",
        title="Engines are in a Dynamo namespace in which their region's frontends look",
        reason="A frontend draws one of several at random for each request, and routing by cache "
        "and session affinity only work inside the one drawn.",
        source="dynamo#10883",
        fix="Give all of them the same DYN_NAMESPACE and an empty DYN_NAMESPACE_WORKER_SUFFIX.",
        check=_namespaces,
    ),
    Rule(
        id="X002",
        severity="error",
        title="Frontends and engines meet in the same discovery",
        reason="The frontends find no engine, and answer 404.",
        source="dynamo#9200",
        fix="Set the same DYN_DISCOVERY_BACKEND on both.",
        check=_backends,
    ),
    Rule(
        id="X003",
        severity="error",
        title="A labelled Service selects the engines that register through Kubernetes",
        reason="Without it the frontends see no engine: they watch endpoints with these labels.",
        source="https://github.com/ai-dynamo/dynamo/blob/main/lib/runtime/src/discovery/kube",
        fix=f'Add a headless Service with the labels {_BACKEND}: kubernetes and {_ENABLED}: "true" '
        "that selects rank 0.",
        check=_discovery_service,
    ),
    Rule(
        id="X004",
        severity="error",
        title="The router's block is the engine's unit of hashing",
        reason="The router drops every event with a warning and routes by load alone.",
        source="dynamo#13904, dynamo#9376",
        fix="Give --kv-cache-block-size the value of the engine's match unit, or leave it out.",
        check=_block_sizes,
    ),
    Rule(
        id="X005",
        severity="error",
        title="Behind a KV router engines publish their events",
        reason="The router's index stays empty, and it routes by load alone.",
        source="dynamo#10403",
        fix="Add --kv-events-config to the engine, or --no-router-kv-events to the frontend.",
        check=_no_events,
    ),
    Rule(
        id="X006",
        severity="warning",
        title="KV events are asked for by a router that uses them",
        reason="Only the mode kv reads them; the flag looks like cache routing and is none.",
        source="https://docs.nvidia.com/dynamo/latest/router",
        fix="Set --router-mode kv, or remove the flag.",
        check=_events_unread,
    ),
    Rule(
        id="X007",
        severity="warning",
        title="A session's turns go to the engine that has its cache",
        reason="Turns of one session are spread over all engines, and each pays the whole prompt.",
        source="InferenceX#2811",
        fix="Use --router-mode kv, or set --router-session-affinity-ttl-secs, for example 900.",
        check=_no_affinity,
    ),
    Rule(
        id="X008",
        severity="error",
        title="Prefill and decode workers come together",
        reason="One cannot answer without the other.",
        source="https://docs.nvidia.com/dynamo/latest/disagg_serving",
        fix="Add the missing role, or serve aggregated.",
        check=_half_disaggregated,
    ),
)
