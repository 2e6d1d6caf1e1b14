"""What has gone wrong with K3 in public, in settings of one engine."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.engine_flags import engine_version
from infra.lint.commands import Command
from infra.lint.concern import is_other_model
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

_OFF = frozenset({"0", "false", "no"})


def _of(scene: Scene, engine: str) -> Iterator[Command]:
    return (command for command in scene.commands if command.engine == engine)


def _at(command: Command, what: str) -> Spot:
    """Point at the whole container, where something is missing."""
    return Spot(command.container.manifest, command.container.path, what)


def _vllm_of_model(scene: Scene) -> Iterator[Command]:
    return (item for item in _of(scene, "vllm") if not is_other_model(scene, item))


def _match_unit(scene: Scene) -> Iterator[Spot]:
    for command in _vllm_of_model(scene):
        if command.has("--enable-prefix-caching") and not command.has("--prefix-match-unit"):
            yield _at(command, "prefix caching without --prefix-match-unit")


def _caching_on(scene: Scene) -> Iterator[Spot]:
    for command in _vllm_of_model(scene):
        off = command.find("--no-enable-prefix-caching")
        version = command.versions.engine
        if command.value("--disaggregation-mode") == "decode":  # its cache comes from elsewhere
            continue
        if off:
            yield Spot(command.container.manifest, off.path, "prefix caching is switched off")
        elif (
            version
            and engine_version(version) < (0, 28)
            and not command.has("--enable-prefix-caching")
        ):
            yield _at(command, "vLLM up to 0.27 has prefix caching off for K3")


def _state_layout(scene: Scene) -> Iterator[Spot]:
    for command in _of(scene, "vllm"):
        transfers = command.value("--kv-transfer-config") or ""
        mode = command.value("--disaggregation-mode")
        layout = command.container.env.get("VLLM_SSM_CONV_STATE_LAYOUT", "")
        if "NixlConnector" in transfers and mode in ("prefill", "decode") and layout == "":
            yield _at(command, f"a {mode} worker with NIXL has no VLLM_SSM_CONV_STATE_LAYOUT")


def _running_requests(scene: Scene) -> Iterator[Spot]:
    for command in _of(scene, "sglang"):
        found = command.find("--speculative-algorithm")
        if found and not command.has("--max-running-requests"):
            what = "speculation without --max-running-requests"
            yield Spot(command.container.manifest, found.path, what)


def _keep_alive(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        env = command.container.env
        rust = env.get("VLLM_USE_RUST_FRONTEND") or "0"
        if command.program != "vllm" or rust in _OFF or "VLLM_HTTP_TIMEOUT_KEEP_ALIVE" in env:
            continue
        yield _at(command, "the Rust frontend without VLLM_HTTP_TIMEOUT_KEEP_ALIVE")


def _role_dtypes(scene: Scene) -> Iterator[Spot]:
    first: dict[tuple[str, str], tuple[str, str | None]] = {}
    for command in scene.commands:
        mode, engine = command.value("--disaggregation-mode"), command.engine
        if engine is None or mode not in ("prefill", "decode"):
            continue
        found = command.value("--kv-cache-dtype")
        key = command.container.manifest.region, engine
        other, dtype = first.setdefault(key, (mode, found))
        if other != mode and dtype != found:
            what = f"{mode} keeps KV as {found or 'auto'}, {other} as {dtype or 'auto'}"
            yield _at(command, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="P020",
        severity="warning",
        title="vLLM finds prefixes in units of 128 tokens",
        reason="Without --prefix-match-unit K3's cache is hit in steps of 1,536 tokens.",
        source="recipes#861, vllm#50235",
        fix="Add --prefix-match-unit 128.",
        check=_match_unit,
    ),
    Rule(
        id="P021",
        severity="error",
        title="Prefix caching is on",
        reason="vLLM up to 0.27 keeps it off for hybrid models such as K3, and every turn pays "
        "its whole prompt again.",
        source="https://blog.vllm.ai/2026/07/27/k3.html",
        fix="Add --enable-prefix-caching.",
        check=_caching_on,
    ),
    Rule(
        id="P023",
        severity="error",
        title="Prefill and decode agree on the layout of the KDA state",
        reason="The decode role reads the state wrong, and answers fluent nonsense.",
        source="dynamo recipes/kimi-k3/vllm/disagg",
        fix="Set VLLM_SSM_CONV_STATE_LAYOUT to DS on both.",
        check=_state_layout,
    ),
    Rule(
        id="P024",
        severity="warning",
        title="SGLang is told how many requests it may run when it speculates",
        reason="It otherwise takes 48, whatever the state pool holds.",
        source="sglang#33004",
        fix="Set --max-running-requests.",
        check=_running_requests,
    ),
    Rule(
        id="P026",
        severity="warning",
        title="vLLM's Rust frontend keeps connections open between turns",
        reason="It closes them after 5 s; agents think longer, and their pooled connections break.",
        source="InferenceX#2371",
        fix="Set VLLM_HTTP_TIMEOUT_KEEP_ALIVE to 900.",
        check=_keep_alive,
    ),
    Rule(
        id="P027",
        severity="error",
        title="Prefill and decode keep KV in the same form",
        reason="The transferred cache is read as something else.",
        source="https://docs.vllm.ai (NIXL connector)",
        fix="Give both the same --kv-cache-dtype.",
        check=_role_dtypes,
    ),
)
