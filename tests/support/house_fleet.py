"""Write a fleet whose release has a house engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DOUBLE = Path(__file__).with_name("house_engine.py")
BLOCK = 64
DOUBLE_COMMAND = [
    *("python3", str(DOUBLE), "--model", "{model}", "--weights={weights}"),
    *("--listen", "{host}:{port}", "--leader", "{leader}"),
    *("--rank", "{rank}", "--nodes", "{nodes}"),
]
# A Dynamo worker is as good as any for the template. Its other node has nothing to compute.
MOCKER_COMMAND = [
    *("python3", "-m", "dynamo.mocker", "--model-path", "{weights}", "--model-name", "{model}"),
    *("--block-size", str(BLOCK), "--num-gpu-blocks-override", "8000"),
]
MOCKER_WORKER = ["sleep", "infinity"]
SYSTEM_PORT = 9090  # where a Dynamo worker says how it is


def double() -> dict[str, Any]:
    """Describe our double of an engine: it only speaks the OpenAI API."""
    return {
        "command": DOUBLE_COMMAND,
        "registers": "nothing",
        "port": 9100,
        "health_path": "/health",
    }


def mocker() -> dict[str, Any]:
    """Describe a house engine that is a Dynamo worker."""
    return {
        "command": MOCKER_COMMAND,
        "worker_command": MOCKER_WORKER,
        "registers": "dynamo",
        "health_path": "/health",
        "health_port": SYSTEM_PORT,
    }


def write_house_fleet(
    folder: Path, custom: dict[str, Any], *, healthy_nodes: int = 4, nodes: int = 2
) -> Path:
    """Write release and fleet file; return the fleet file."""
    release = {
        "name": "house",
        "engine": {
            "kind": "custom",
            "image": "registry.example/house@sha256:" + "a" * 64,
            "version": "1.0",
            "custom": custom,
        },
        "dynamo": {"version": "1.6.1", "image": "dynamo:1.6.1"},
        "weights": {"revision": "abc"},
        "parallelism": {"tensor": 4 * nodes},
        "nodes": nodes,
        "block_size": BLOCK,
        "max_num_seqs": 64,
        "max_batched_tokens": 8192,
        "gpu_memory_utilization": 0.9,
        "args": ["--block", str(BLOCK)] if custom["command"] == DOUBLE_COMMAND else [],
    }
    fleet = {
        "apiVersion": "k3fleet/v1",
        "name": "house",
        "release": "./house.yaml",
        "frontends": {"replicas": 1},
        "regions": [{"name": "here", "racks": [{"id": "r01", "healthy_nodes": healthy_nodes}]}],
    }
    (folder / "house.yaml").write_text(yaml.safe_dump(release))
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump(fleet))
    return path
