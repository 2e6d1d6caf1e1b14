"""Tell from an image's name which engine and which Dynamo are inside, as far as it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from infra.lint.pods import Container
from infra.release_values import DYNAMO_VERSION, ENGINE_VERSION

# Which engine a Dynamo release pins (the METADATA of its wheels).
PINS: Mapping[str, Mapping[str, str]] = {
    "1.4.2": {"vllm": "0.26.0", "sglang": "0.5.16"},
    "1.5.0": {"vllm": "0.28.0", "sglang": "0.5.18"},
    "1.5.1": {"vllm": "0.28.0", "sglang": "0.5.18"},
    "1.6.0": {"vllm": "0.31.0", "sglang": "0.5.21"},
    "1.6.1": {"vllm": "0.31.0", "sglang": "0.5.21"},
}
_ENGINE_IMAGES = frozenset({"vllm/vllm-openai", "lmsysorg/sglang"})
_RUNTIME_IMAGES: Mapping[str, str] = {
    "vllm-runtime": "vllm",
    "sglang-runtime": "sglang",
    "tensorrtllm-runtime": "trtllm",
}
_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)(?:-(?:cu\w+|arm64|aarch64|ubuntu[\d.]+))*")


class Image(NamedTuple):
    """The parts of an image reference; empty text for what it does not have."""

    repository: str
    tag: str
    digest: str


class Versions(NamedTuple):
    """What runs in a container. None: the image's name does not say, or it is no release."""

    engine: str | None  # "0.31.0"
    dynamo: str | None  # "1.6.1"


def parse_image(reference: str) -> Image:
    """Split `registry:5000/team/image:tag@sha256:…`."""
    rest, _, digest = reference.partition("@")
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    return Image(f"{head}{slash}{name}", tag, digest)


def versions_in(container: Container) -> Versions:
    """Say what a container's image holds: by the pod's annotations, else by the image's name."""
    named = _named_versions(container.image)
    dynamo = container.annotations.get(DYNAMO_VERSION, named.dynamo)
    engine = container.annotations.get(ENGINE_VERSION, named.engine)
    return Versions(engine, dynamo)


def _named_versions(reference: str) -> Versions:
    image = parse_image(reference)
    found = _RELEASE.fullmatch(image.tag)
    if found is None:
        return Versions(None, None)
    name = image.repository.removeprefix("docker.io/")
    if name in _ENGINE_IMAGES:
        return Versions(found[1], None)
    runtime = _RUNTIME_IMAGES.get(name.rpartition("/")[2])
    if runtime is None:
        return Versions(None, found[1] if "dynamo" in name else None)
    return Versions(PINS.get(found[1], {}).get(runtime), found[1])
