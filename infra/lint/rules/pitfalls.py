"""What has gone wrong with K3 in public, in settings of any engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleet.release import moves
from fleet.units import whole_number
from infra.lint.images import parse_image
from infra.lint.pods import sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

_OFF = frozenset({"", "0", "false", "no", "none"})
# Settings of benchmarks. The last four make the engine accept drafts that it should refuse.
_BENCHMARK_ENV = ("VLLM_SERVER_DEV_MODE",)
_SYNTHETIC_ENV = ("SGLANG_SIMULATE_ACC_LEN", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS")
_MNNVL_ENV = ("NCCL_MNNVL_ENABLE", "UCX_CUDA_IPC_ENABLE_MNNVL", "MC_FORCE_MNNVL")
_MULTI_NODE_REDUCE = ("VLLM_FLASHINFER_ALLREDUCE_BACKEND", "mnnvl")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PLACEHOLDER = re.compile(r"(?:^|/)(?:example\.(?:com|org|net)|your-\w+|my-registry)(?:[/:]|$)")
_DRAFT = "--speculative-config"


def _benchmark_env(scene: Scene) -> Iterator[Spot]:
    for template, container in scene.engine_containers():
        for name, value, path in container.env_entries():
            if name in _BENCHMARK_ENV and value is not None and value.lower() not in _OFF:
                what = f"{name} lets anyone who reaches the engine clear its cache"
                yield Spot(template.manifest, path, what)


def _synthetic(scene: Scene) -> Iterator[Spot]:
    for template, container in scene.engine_containers():
        for name, value, path in container.env_entries():
            if name in _SYNTHETIC_ENV and value is not None and value.lower() not in _OFF:
                yield Spot(template.manifest, path, f"{name}={value} accepts drafts unseen")
    for command in scene.commands:
        settings = command.given.keys(_DRAFT)
        keys = [key for key in settings if key.startswith("synthetic_acceptance")]
        if settings.get("rejection_sample_method") == "synthetic" or keys:
            what = "rejection sampling is synthetic: drafts are accepted unseen"
            yield Spot(command.container.manifest, command.place(_DRAFT), what)


def _mnnvl(scene: Scene) -> Iterator[Spot]:
    for template, container in scene.engine_containers():
        claims = container.manifest.at(*container.path, "resources", "claims")
        if sequence(claims) or sequence(template.spec.get("resourceClaims")):
            continue
        for name, value, path in container.env_entries():
            asked = name in _MNNVL_ENV and value not in (None, "0", "n", "false")
            if asked or (name, value) == _MULTI_NODE_REDUCE:
                what = f"{name}={value}, but the pod claims no channel of a ComputeDomain"
                yield Spot(template.manifest, path, what)


def _bad_tag(scene: Scene) -> Iterator[Spot]:
    for template, container in scene.engine_containers():
        image = parse_image(container.image)
        if image.repository.endswith("vllm/vllm-openai") and image.tag == "kimi-k3":
            yield Spot(template.manifest, (*container.path, "image"), "the image of day 0")


def _leftovers(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        for value in template.node_values("nvidia.com/gpu.clique"):
            if _UUID.search(value):
                what = f"the clique {value} is one rack of one site, until it is serviced"
                yield Spot(template.manifest, template.spec_path, what)
        for container in template.all_containers():
            repository = parse_image(container.image).repository
            if "/nvstaging/" in f"/{repository}/" or _PLACEHOLDER.search(repository):
                what = f"{repository} is a placeholder, or a registry for somebody's staging"
                yield Spot(template.manifest, (*container.path, "image"), what)
        for index, item in enumerate(sequence(template.spec.get("tolerations"))):
            if isinstance(item, dict) and item.get("value") == "GoldenPrairie":
                path = (*template.spec_path, "tolerations", index)
                yield Spot(template.manifest, path, "the taint is one of NVIDIA's own clusters")


def _duplicate_keys(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.manifests:
        for path, line in manifest.duplicates:
            what = f"the key is given again on line {line}, and only the last one counts"
            yield Spot(manifest, path, what)


def _floating_revision(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        found = command.find("--revision", "--tokenizer-revision", "--code-revision")
        if found and moves(found.text):
            what = f"{found.text} is whatever was pushed last"
            yield Spot(command.container.manifest, found.path, what)


def _many_drafts(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        flag = _DRAFT if command.engine == "vllm" else "--speculative-dspark-block-size"
        asked = command.given.keys(flag).get("num_speculative_tokens", command.value(flag))
        count = whole_number(asked)
        if count is not None and count > 4:
            what = f"{count} drafts per step"
            yield Spot(command.container.manifest, command.place(flag), what)


def _stream_interval(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        found = command.find("--stream-interval")
        if found and (whole_number(found.text) or 0) > 10:
            what = f"{found.text} tokens are sent at a time"
            yield Spot(command.container.manifest, found.path, what)


def _symmetric_memory(scene: Scene) -> Iterator[Spot]:
    for template, container in scene.engine_containers():
        for name, value, path in container.env_entries():
            if name == "VLLM_USE_NCCL_SYMM_MEM" and value == "1":
                what = "NCCL's symmetric memory breaks the capture of CUDA graphs here"
                yield Spot(template.manifest, path, what)


def _everything_transport(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        for name, value, path in command.container.env_entries():
            if command.engine == "trtllm" and (name, value) == ("UCX_TLS", "all"):
                yield Spot(command.container.manifest, path, "UCX_TLS=all hangs the set-up")


RULES: tuple[Rule, ...] = (
    Rule(
        id="P001",
        severity="error",
        title="Nothing that is for benchmarks only is on",
        reason="Development endpoints clear caches, and are open to whoever reaches the engine.",
        source="dynamo recipes/kimi-k3 (for POST /reset_prefix_cache)",
        fix="Remove the variable; measure with fresh prompts instead.",
        check=_benchmark_env,
    ),
    Rule(
        id="P002",
        severity="error",
        title="Drafts are verified",
        reason="Synthetic acceptance corrupts every answer: SWE-bench falls to 0.",
        source="https://github.com/SemiAnalysisAI/InferenceX (golden_al_distribution)",
        fix="Use block or standard rejection sampling.",
        check=_synthetic,
    ),
    Rule(
        id="P003",
        severity="error",
        title="NVLink between nodes is used only where a ComputeDomain gives it",
        reason="Without a channel the all-reduce hangs for more than an hour and then runs out "
        "of memory.",
        source="vllm#51986",
        fix="Claim the rack's ComputeDomain, or remove the setting.",
        check=_mnnvl,
    ),
    Rule(
        id="P004",
        severity="error",
        title="The image of day 0 is not used",
        reason="It has the expert-padding bug and a commit that is not upstream.",
        source="vllm#51975",
        fix="Use vllm/vllm-openai:v0.27.1 or later, by digest.",
        check=_bad_tag,
    ),
    Rule(
        id="P005",
        severity="warning",
        title="Nothing belongs to somebody else's site",
        reason="Placeholders, staging registries and clique ids of another cluster never work "
        "here.",
        source="dynamo recipes/kimi-k3",
        fix="Put your own registry, rack label and taints there.",
        check=_leftovers,
    ),
    Rule(
        id="P006",
        severity="error",
        title="A key is given once",
        reason="YAML loaders keep the last one and drop the first silently, which has cost "
        "public recipes their CUDA graph sizes.",
        source="https://github.com/SemiAnalysisAI/InferenceX (agg-gb200-*-agentic.yaml)",
        fix="Keep one of them.",
        check=_duplicate_keys,
    ),
    Rule(
        id="P008",
        severity="warning",
        title="Revisions are fixed",
        reason="The next start of a pod may load other weights than its neighbour has.",
        source="https://huggingface.co/docs/huggingface_hub/guides/download",
        fix="Give the commit, 40 hexadecimal digits.",
        check=_floating_revision,
    ),
    Rule(
        id="P009",
        severity="info",
        title="Few drafts are made for long prompts",
        reason="Acceptance of drafts falls to 1.2 to 1.7 tokens beyond 100K tokens of context; "
        "seven drafts then cost 20 to 63 % of the throughput.",
        source="InferenceX#2380, vllm#47930",
        fix="Make 3 or 4, fewer under load, and measure acceptance by prompt length.",
        check=_many_drafts,
    ),
    Rule(
        id="P010",
        severity="info",
        title="Tokens are sent a few at a time",
        reason="The client's time between tokens is measured wrong, and looks better than it is.",
        source="InferenceX#2686",
        fix="Lower --stream-interval to 10, and record it with every result.",
        check=_stream_interval,
    ),
    Rule(
        id="P012",
        severity="error",
        title="NCCL's symmetric memory is off",
        reason="It breaks the capture of CUDA graphs for K3.",
        source="dynamo recipes/kimi-k3 README",
        fix="Set VLLM_USE_NCCL_SYMM_MEM to 0.",
        check=_symmetric_memory,
    ),
    Rule(
        id="P013",
        severity="error",
        title="UCX is told its transports",
        reason="With all of them the connection of the KV transceivers hangs.",
        source="TensorRT-LLM examples/kimi_k3/disagg",
        fix="List them, for example cuda_copy,cuda_ipc,tcp.",
        check=_everything_transport,
    ),
)
