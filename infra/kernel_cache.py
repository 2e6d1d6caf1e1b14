"""Keep what engines compile when they start, for the next start on the same node.

With local weights, compiling and tuning kernels is most of a start. What was compiled
fits one image, one GPU and one split over GPUs: each combination has a folder of its
own, and another release of the same three finds it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from fleet.engine_flags import engine_version
from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import Release
from fleet.schema import has_digest
from infra.options import Options

MOUNT = "/kernel-cache"

# Read by the libraries that all engines use. FlashInfer makes `.cache/flashinfer` below its own.
_LIBRARIES = {"TRITON_CACHE_DIR": f"{MOUNT}/triton", "FLASHINFER_WORKSPACE_BASE": MOUNT}
# Read by the engines (flag tables), for torch.compile, DeepGEMM and kernels of their own.
_ENGINES: Mapping[str, Mapping[str, str]] = {
    "vllm": {"VLLM_CACHE_ROOT": f"{MOUNT}/vllm"},
    "sglang": {
        "SGLANG_CACHE_DIR": f"{MOUNT}/sglang",
        "SGLANG_DG_CACHE_DIR": f"{MOUNT}/deep_gemm",
        "SGLANG_JIT_CACHE_DIR": f"{MOUNT}/sglang-jit",
    },
}
_SINCE = {"SGLANG_JIT_CACHE_DIR": (0, 5, 18)}

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCache:
    """Where a pod keeps its compiled kernels: a folder of its node, or one in a claim."""

    claim: str | None
    folder: str
    mount: str = MOUNT


def kernel_cache(fleet: Fleet, release: Release, options: Options) -> KernelCache | None:
    """Choose the folder of a release as its role sees it; None where none is kept."""
    spec = fleet.spec.kernel_cache
    if spec is None or options.bare:
        return None
    key = _key(release, fleet.hardware.gpu_product)
    if spec.path is None:
        return KernelCache(claim=spec.claim, folder=key)
    _check_apart(fleet, spec.path, options.weights_dir)
    return KernelCache(claim=None, folder=f"{spec.path.rstrip('/')}/{key}")


def kernel_cache_env(release: Release) -> dict[str, str]:
    """Give the variables that lead compilers and tuners of an engine into the cache."""
    own = {
        name: folder
        for name, folder in _ENGINES.get(release.engine.kind, {}).items()
        if engine_version(release.engine.version) >= _SINCE.get(name, ())
    }
    return {**_LIBRARIES, **own}


def _key(release: Release, gpu: str) -> str:
    image = release.engine.image or ""
    if not has_digest(image):
        raise ConfigError(
            f"release {release.name}: engine.image: kernel_cache needs the image's digest, because "
            "kernels of another build crash or compute wrongly. "
            "Write repository:tag@sha256:<64 hex digits>."
        )
    digest = image.rpartition(":")[2]
    key = f"{digest}-{gpu}-tp{release.parallelism.tensor}"
    if not _FOLDER.fullmatch(key):
        raise ConfigError(
            f"hardware: gpu_product: {gpu!r} cannot be part of a folder's name, which kernel_cache "
            "needs. Use letters, digits, dots, dashes and underscores."
        )
    return key


def _check_apart(fleet: Fleet, path: str, weights_dir: str) -> None:
    """Refuse a cache among the weights, where folders come and go by other rules."""
    cache, weights = PurePosixPath(path), PurePosixPath(weights_dir)
    if cache.is_relative_to(weights) or weights.is_relative_to(cache):
        raise ConfigError(
            f"{fleet.path}: kernel_cache.path: {path} and the weights' folder {weights_dir} lie in "
            "each other. Give a folder beside it, for example "
            f"{weights.parent / 'kernels'}."
        )
