"""Tell on which kind of rack a pod runs, as far as it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fleet.hardware import Hardware
from fleet.load import load_hardware, preset_names
from fleet.units import whole_number
from infra.lint.pods import Container, PodTemplate, sequence

PRODUCT = "nvidia.com/gpu.product"
ARCH = "kubernetes.io/arch"
GPU = "nvidia.com/gpu"


def hardware_of(template: PodTemplate, container: Container, usual: Hardware) -> Hardware | None:
    """Return the kind of rack that a pod asks for; None: it asks for one that we do not know."""
    found = _by_product(_required(template.spec, PRODUCT), usual)
    if found is None:
        return None
    archs = _required(template.spec, ARCH)
    if archs is not None and found.arch not in archs:
        return None
    return found if _fits_node(container, found) else None


def _by_product(products: frozenset[str] | None, usual: Hardware) -> Hardware | None:
    if products is None or products == {usual.gpu_product}:
        return usual
    if len(products) != 1:
        return None
    return next((known for known in _presets() if known.gpu_product in products), None)


def is_product_of_racks(product: str) -> bool:
    """Say whether a GPU product is that of a rack that we know."""
    return any(known.gpu_product == product for known in _presets())


@cache
def _presets() -> tuple[Hardware, ...]:
    return tuple(load_hardware(name, beside=Path()) for name in preset_names("hardware"))


def _required(spec: Mapping[str, Any], label: str) -> frozenset[str] | None:
    """Return which values a node's label may have; None: the pod does not care."""
    selector = spec.get("nodeSelector")
    if isinstance(selector, dict) and label in selector:
        return frozenset({str(selector[label])})
    terms = [_allowed(term, label) for term in _terms(spec)]
    if not terms or None in terms:  # any one of the terms is enough
        return None
    return frozenset(value for term in terms for value in term or ())


def _terms(spec: Mapping[str, Any]) -> Iterator[object]:
    found: object = spec
    for key in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        found = found.get(key) if isinstance(found, dict) else None
    yield from sequence(found.get("nodeSelectorTerms") if isinstance(found, dict) else None)


def _allowed(term: object, label: str) -> frozenset[str] | None:
    for item in sequence(term.get("matchExpressions") if isinstance(term, dict) else None):
        if isinstance(item, dict) and item.get("key") == label and item.get("operator") == "In":
            return frozenset(str(value) for value in sequence(item.get("values")))
    return None


def counted_gpus(container: Container) -> int | None:
    """Return the GPUs that a container asks for; None where it does not count them."""
    resources = container.data.get("resources")
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, dict) else None
        found = amounts.get(GPU) if isinstance(amounts, dict) else None
        if found is not None:
            return whole_number(found)
    return None


def _fits_node(container: Container, hardware: Hardware) -> bool:
    """Say whether a node of that kind has the GPUs that a container takes."""
    resources = container.data.get("resources")
    for key in ("limits", "requests"):
        amounts = resources.get(key) if isinstance(resources, dict) else None
        for name, amount in amounts.items() if isinstance(amounts, dict) else ():
            if str(name).endswith("/gpu") and name != GPU:
                return False
            if name == GPU and (whole_number(amount) or 0) > hardware.gpus_per_node:
                return False
    return True
