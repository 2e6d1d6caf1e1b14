"""Rules about files that have to be on a node, or in a claim, before an engine starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from infra.lint.manifest import Manifest
from infra.lint.pods import named, sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

_DOWNLOAD = re.compile(r"snapshot_download|\bhf download\b|huggingface-cli download")
_ONLINE = re.compile(r"\bHF_HUB_OFFLINE=0\b")


def _downloads(scene: Scene) -> Iterator[Spot]:
    for template, container in scene.engine_containers():
        for key in ("command", "args"):
            for index, text in enumerate(sequence(container.data.get(key))):
                if isinstance(text, str) and (_DOWNLOAD.search(text) or _ONLINE.search(text)):
                    what = "the engine downloads when it starts"
                    yield Spot(template.manifest, (*container.path, key, index), what)


def _sub_paths(scene: Scene) -> Iterator[Spot]:
    """Compare what Jobs leave in a claim with what pods mount out of it."""
    filled = {claim: folders for manifest in scene.of("Job") for claim, folders in _fills(manifest)}
    for template, container in scene.engine_containers():
        claims = _claims(template.spec)
        for index, name, mount in named(container.data.get("volumeMounts")):
            folder, claim = mount.get("subPath"), claims.get(name)
            if not isinstance(folder, str) or claim not in filled:
                continue
            if folder.partition("/")[0] not in filled[claim]:
                path = (*container.path, "volumeMounts", index, "subPath")
                what = f"no Job here fills {folder} of claim {claim}"
                yield Spot(template.manifest, path, what)


def _fills(job: Manifest) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (claim, top folders that a download leaves there) of a Job, where it is certain."""
    spec = job.at("spec", "template", "spec")
    if not isinstance(spec, dict):
        return
    claims = _claims(spec)
    for _, _, container in named(spec.get("containers")):
        text = json.dumps(container)
        if not _DOWNLOAD.search(text) or "local-dir" in text or "local_dir" in text:
            continue
        for mount in named(container.get("volumeMounts")):
            if mount.name in claims:
                # The layout of a Hugging Face home: hub/models--org--name/snapshots/revision.
                yield claims[mount.name], frozenset({"hub"})


def _claims(spec: Mapping[str, object]) -> dict[str, str]:
    return {
        name: str(volume.get("claimName"))
        for _, name, item in named(spec.get("volumes"))
        if isinstance(volume := item.get("persistentVolumeClaim"), dict)
    }


RULES: tuple[Rule, ...] = (
    Rule(
        id="P007",
        severity="warning",
        title="An engine finds its files on the node",
        reason="Every pod reads the draft or the weights again at each start: of six pods two "
        "read 1.5 TB each.",
        source="dynamo recipes/kimi-k3",
        fix="Stage weights, draft and tokenizer on the nodes beforehand.",
        check=_downloads,
    ),
    Rule(
        id="P011",
        severity="error",
        title="What a pod mounts, a Job has filled",
        reason="The mount is empty, and the engine fails after its pod was placed.",
        source="dynamo recipes/kimi-k3 (model-download.yaml)",
        fix="Download with --local-dir to that folder, or mount the cache as HF_HOME.",
        check=_sub_paths,
    ),
)
