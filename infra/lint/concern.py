"""Tell which engines are K3's, or on its racks, from those that only share the manifests."""

from __future__ import annotations

from infra.lint.commands import Command
from infra.lint.gpus import PRODUCT, counted_gpus, is_product_of_racks
from infra.lint.manifest import RACK
from infra.lint.pods import Workload
from infra.lint.scene import Scene
from infra.lint.weights_source import is_local, source_of

CLIQUE = "nvidia.com/gpu.clique"


def concerns(scene: Scene, workload: Workload) -> bool:
    """Say whether a workload may be the model's; no only where it is plainly somebody else's."""
    commands = [command for command in scene.commands_of(workload) if command.is_engine]
    return _asks_for_rack(workload) or not all(
        _is_other(scene, workload, command) for command in commands
    )


def is_other_model(scene: Scene, command: Command) -> bool:
    """Say whether an engine plainly names another model, by its repository."""
    source = source_of(command)
    if not source or is_local(source):
        return False
    return scene.model.name not in source.lower()


def _is_other(scene: Scene, workload: Workload, command: Command) -> bool:
    source = (source_of(command) or "").lower()
    if is_other_model(scene, command):
        return True
    count = counted_gpus(command.container)
    is_part = count is not None and count < scene.hardware.gpus_per_node and not workload.is_group
    return is_part and "$" not in source and "k3" not in source


def _asks_for_rack(workload: Workload) -> bool:
    return any(
        template.node_values(RACK)
        or template.node_values(CLIQUE)
        or any(map(is_product_of_racks, template.node_values(PRODUCT)))
        for template in workload.templates
    )
