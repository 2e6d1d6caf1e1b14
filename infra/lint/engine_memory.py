"""Find the engines whose memory can be judged, and on what they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from fleet.hardware import Hardware
from fleet.memory import MemoryShape, ReplicaMemory, divide_memory, least_weights_bytes
from fleet.model import Model
from fleet.units import format_bytes
from infra.lint.commands import Command
from infra.lint.engine_shape import EngineShape, engine_shape
from infra.lint.gpus import hardware_of
from infra.lint.pods import PodTemplate, Workload
from infra.lint.rule import Spot
from infra.lint.scene import Scene
from infra.lint.shape_flags import shape_flag
from infra.lint.trtllm_shape import SETTINGS, trtllm_shape
from infra.lint.weights_source import serves


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEngine:
    """An engine that can be judged, and on what it runs."""

    workload: Workload
    command: Command
    shape: EngineShape
    hardware: Hardware
    model: Model
    memory_shape: MemoryShape | None
    memory: ReplicaMemory | None  # None: not known

    @property
    def weights_bytes(self) -> int:
        """Bytes of weights on the fullest GPU, at least."""
        if self.memory:
            return self.memory.weights_per_gpu_bytes
        return least_weights_bytes(self.model, self.shape.ranks)

    @property
    def usable_bytes(self) -> int:
        """Bytes of a GPU that the engine may use."""
        share = self.shape.gpu_memory_utilization
        if share is None or self.shape.engine == "trtllm":  # there a share of what is left
            return self.hardware.gpu_memory_bytes
        return int(self.hardware.gpu_memory_bytes * share)

    @property
    def fits(self) -> bool:
        """Say whether the weights do."""
        return self.weights_bytes <= self.usable_bytes

    @property
    def size(self) -> str:
        """Write the memory of a GPU: `278 GiB x 0.92 = 255 GiB`."""
        share = self.shape.gpu_memory_utilization
        whole = gib(self.hardware.gpu_memory_bytes)
        if share is None or self.shape.engine == "trtllm":
            return whole
        return f"{whole} x {share:g} = {gib(self.usable_bytes)}"

    @property
    def room(self) -> str:
        """Write what is left of a GPU for caches; only where the memory is known."""
        if self.memory is None:
            return self.size
        parts = f"{gib(self.weights_bytes)} weights and {gib(self.memory.reserve_bytes)} runtime"
        if self.shape.engine == "trtllm":
            return f"{self.shape.gpu_memory_utilization:g} of {self.size} less {parts}"
        return f"{self.size} less {parts}"

    def flag(self, field: str) -> str:
        """Name the engine's flag of a field, or its setting."""
        if self.shape.engine == "trtllm":
            return SETTINGS[field]
        return shape_flag(self.shape.engine, field)[0]

    def spot(self, field: str, what: str, fix: str | None = None) -> Spot:
        """Point at a flag; at the container where it is not given."""
        word = self.command.find(*shape_flag(self.shape.engine, field))
        container = self.command.container
        return Spot(container.manifest, word.path if word else container.path, what, fix)


def judged_engines(scene: Scene) -> Iterator[JudgedEngine]:
    """Yield the engines of each workload, those of one shape once: leader and workers are alike."""

    @cache
    def memory(shape: EngineShape, hardware: str) -> tuple[MemoryShape, ReplicaMemory] | None:
        needs = shape.memory_shape(scene.model)
        return (needs, divide_memory(scene.model, kinds[hardware], needs)) if needs else None

    kinds: dict[str, Hardware] = {}
    for workload in scene.engines:
        seen = set()
        for command in scene.commands_of(workload):
            template = _template(workload, command)
            shape = engine_shape(command) or trtllm_shape(command, template, scene.config_maps)
            if shape is None or shape in seen or not serves(command, scene.model):
                continue
            hardware = hardware_of(template, command.container, scene.hardware)
            if hardware is None:
                continue
            seen.add(shape)
            kinds[hardware.name] = hardware
            found = memory(shape, hardware.name)
            yield JudgedEngine(
                workload=workload,
                command=command,
                shape=shape,
                hardware=hardware,
                model=scene.model,
                memory_shape=found[0] if found else None,
                memory=found[1] if found else None,
            )


def _template(workload: Workload, command: Command) -> PodTemplate:
    path = command.container.path
    return next(item for item in workload.templates if path[: len(item.path)] == item.path)


def once(engines: Iterable[JudgedEngine]) -> Iterator[tuple[JudgedEngine, str]]:
    """Yield one engine of each shape, and how many more have it, in words."""
    alike: dict[tuple[object, ...], list[JudgedEngine]] = {}
    for engine in engines:
        key = (engine.memory_shape, engine.shape.states_per_sequence, engine.hardware.name)
        alike.setdefault(key, []).append(engine)
    for first, *others in alike.values():
        yield first, f" (and {len(others)} more of this shape)" if others else ""


def gib(count: int) -> str:
    """Write a size of memory as `271 GiB`."""
    return format_bytes(count, binary=True)
