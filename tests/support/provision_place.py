"""A folder from which fleets are provisioned, with stand-ins for Pulumi and for the clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_cluster import FakeCluster
from fake_pulumi import FakePulumi
from patience import wait_until

from cli.main import main

K3FLEET = str(Path(sys.executable).with_name("k3fleet"))


@dataclass
class Place:
    """A folder with a fleet file, a stand-in for Pulumi, and one for the cluster."""

    folder: Path
    pulumi: FakePulumi
    cluster: FakeCluster
    capture: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    @property
    def fleet(self) -> Path:
        return self.folder / "fleet.yaml"

    def write(self, *regions: str, cluster: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Write a fleet file whose regions have a rack each, and a cluster when one is given."""
        rack = {"healthy_nodes": 4}
        own = {"cluster": dict(cluster)} if cluster else {}
        listed = [
            {"name": name, "context": name, "racks": [{"id": f"{name}-r01", **rack}], **own}
            for name in regions
        ]
        data = {"apiVersion": "k3fleet/v1", "name": "demo", "release": "vllm-tp8-dcp8"}
        self.fleet.write_text(yaml.safe_dump({**data, "regions": listed, **more}))

    def run(self, *words: str) -> int:
        """Run a command, and read what it printed."""
        command, *rest = words
        code = main([command, str(self.fleet), *rest])
        self.out, self.err = self.capture.readouterr()
        return code

    def brought_up(self) -> None:
        """Have a fleet that is up, as its state says."""
        for layer in ("platform", "serving"):
            name = f"k3fleet-{layer}/{layer}-us-east.json"
            file = self.stacks / "state/.pulumi/stacks" / name
            file.parent.mkdir(parents=True)
            file.write_text("{}")

    def config(self, stack: str, **values: Any) -> dict[str, Any]:
        """Read what a stack was told, after it was told more."""
        file = self.stacks / stack / f"Pulumi.{stack}.yaml"
        content: dict[str, Any] = yaml.safe_load(file.read_text())
        project = f"k3fleet-{stack.partition('-')[0]}"
        content["config"] |= {f"{project}:{key}": value for key, value in values.items()}
        file.write_text(yaml.safe_dump(content))
        return {key.partition(":")[2]: value for key, value in content["config"].items()}

    @property
    def stacks(self) -> Path:
        """Folder of the stacks."""
        return self.folder / ".k3fleet/demo/stacks"

    def outputs(self, **values: Any) -> dict[str, Any]:
        """Answer for the deployed stack's outputs."""
        return {"prints": json.dumps({"region": "us-east", "namespace": "k3", **values})}

    def releases(self, identity: str) -> dict[str, str]:
        return {f"us-east-r01-{slot}": identity for slot in range(2)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command as a process of its own."""
        command, *rest = words
        return subprocess.Popen(
            [K3FLEET, command, str(self.fleet), *rest],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def hanging(self, stack: str) -> int:
        """Wait until Pulumi hangs in a stack, and give its process."""
        file = self.pulumi.folder / f"started-{stack}"
        return int(wait_until(lambda: file.exists() and file.read_text(), f"no engine of {stack}"))

    def plugin(self, stack: str) -> int:
        """Give the process of the plugin that Pulumi has started for a stack."""
        return int((self.pulumi.folder / f"plugin-{stack}").read_text())
