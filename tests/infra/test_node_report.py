"""The node report: the script for real on made-up nodes, and what is rendered for it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fleet.load import Fleet
from fleet.racks.report import MAX_BYTES, NodeReport, read_report
from infra.options import Options
from infra.render import CHARTS, KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SCRIPT = CHARTS / "platform/node-report.py"
IMAGE = "registry.example/python@sha256:" + "0" * 64
# What matters of `nvidia-smi -q`, of two GPUs of one tray.
SMI = """\
GPU 00000008:01:00.0
    Product Name                              : NVIDIA GB300
    Platform Info
        Chassis Serial Number                 : 1820224130115
        Slot Number                           : 9
        Tray Index                            : 5
    Clocks Event Reasons
        State                                 : nonsense
    Fabric
        State                                 : Completed
        Status                                : Success
        CliqueId                              : 32766
        ClusterUUID                           : 7b968a6d-c8aa-45e1-9e07-e1e51be99c31
        Health
            Bandwidth                         : N/A
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Load the script as a module; its name has a dash."""
    spec = importlib.util.spec_from_file_location("node_report_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=True,
        timeout=60,
    )


def test_what_it_prints_is_a_report(tmp_path: Path) -> None:
    """On a machine without any of it: what cannot be found out is null, and it does not fail."""
    report = read_report(run("--host", str(tmp_path), NODE_NAME="n1").stdout, "n1")
    assert isinstance(report, NodeReport)
    assert (report.driver, report.disk, report.fabric) == (None, None, None)
    assert report.imex is not None
    assert report.imex.state == "unknown"


def test_its_last_words_fit(tmp_path: Path) -> None:
    """kubelet cuts them off at 4096 bytes, and half a report is none."""
    out, keep = tmp_path / "log", tmp_path / "last"
    run("--out", str(out), "--keep", str(keep), NODE_NAME='"' * 5000)
    assert out.read_bytes() == keep.read_bytes()
    assert len(out.read_bytes()) < MAX_BYTES
    assert isinstance(read_report(out.read_bytes()), NodeReport)


def test_it_ends_once_something_has_changed(tmp_path: Path) -> None:
    """kubelet keeps what it said, and starts it anew."""
    out, keep = tmp_path / "log", tmp_path / "last"
    keep.write_text("what was before")
    run("--out", str(out), "--keep", str(keep), "--watch", "0.01", NODE_NAME="n1")
    assert isinstance(read_report(out.read_bytes(), "n1"), NodeReport)
    assert out.read_bytes() == keep.read_bytes()


@pytest.mark.parametrize(
    ("units", "state"),
    [
        ({}, "absent"),
        ({"etc/systemd/system": "/dev/null"}, "masked"),
        ({"run/systemd/system": "/dev/null", "usr/lib/systemd/system": "unit"}, "masked"),
        ({"etc/systemd/system": ""}, "masked"),
        ({"usr/lib/systemd/system": "unit"}, "disabled"),
        ({"usr/lib/systemd/system": "unit", "wanted": "yes"}, "enabled"),
        ({"etc/systemd/system": "unit", "usr/lib/systemd/system": "/dev/null"}, "disabled"),
    ],
)
def test_the_imex_service_is_seen_as_systemd_sees_it(
    script: ModuleType, tmp_path: Path, units: dict[str, str], state: str
) -> None:
    """A mask is a link to /dev/null in the folder that counts first."""
    (tmp_path / "etc/systemd/system/multi-user.target.wants").mkdir(parents=True)
    for folder, content in units.items():
        if folder == "wanted":
            wants = tmp_path / "etc/systemd/system/multi-user.target.wants/nvidia-imex.service"
            wants.symlink_to("/usr/lib/systemd/system/nvidia-imex.service")
            continue
        unit = tmp_path / folder / "nvidia-imex.service"
        unit.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("/"):
            unit.symlink_to(content)
        else:
            unit.write_text(content)
    assert script.imex(tmp_path) == {"state": state, "running": None}


def test_a_service_that_runs_has_a_group(script: ModuleType, tmp_path: Path) -> None:
    """Whatever its unit says now."""
    (tmp_path / "sys/fs/cgroup/system.slice/nvidia-imex.service").mkdir(parents=True)
    assert script.imex(tmp_path)["running"] is True


def blocks(root: Path, tree: dict[str, list[str]], level: str | None = None) -> Path:
    """Make block devices as sysfs shows them; the first is the one that is mounted."""
    for name in tree:
        (root / name / "slaves").mkdir(parents=True, exist_ok=True)
    for name, below in tree.items():
        for slave in below:
            (root / name / "slaves" / slave).symlink_to(root / slave)
    if level is not None:
        md = next(name for name in tree if name.startswith("md"))
        (root / md / "md").mkdir()
        (root / md / "md" / "level").write_text(level + "\n")
    return root / next(iter(tree))


@pytest.mark.parametrize(
    ("tree", "level", "kind"),
    [
        ({"md127": ["nvme1n1", "nvme2n1"], "nvme1n1": [], "nvme2n1": []}, "raid0", ("raid0", 2)),
        ({"dm-0": ["md0"], "md0": ["nvme1n1"], "nvme1n1": []}, "raid0", ("raid0", 1)),
        ({"md0": ["nvme1n1"], "nvme1n1": []}, "raid1", ("raid", 1)),
        ({"md0": ["sda"], "sda": []}, "raid0", ("raid0", 0)),
        ({"nvme0n1": []}, None, ("nvme", 1)),
        ({"sda": []}, None, ("other", 0)),
        ({"dm-0": ["sda", "nvme0n1"], "sda": [], "nvme0n1": []}, None, ("other", 0)),
    ],
)
def test_disks_are_followed_to_the_bottom(
    script: ModuleType, tmp_path: Path, tree: dict[str, list[str]], level: str | None, kind: Any
) -> None:
    """Weights on the system disk load five times slower, and fill it."""
    assert script.kind_of(blocks(tmp_path, tree, level)) == kind


def test_a_partition_is_of_its_disk(script: ModuleType, tmp_path: Path) -> None:
    """sysfs has it inside of the disk's folder."""
    disk = blocks(tmp_path, {"nvme0n1": []})
    (disk / "nvme0n1p1").mkdir()
    assert script.kind_of(disk / "nvme0n1p1") == ("nvme", 1)


def test_nvidia_smi_is_read_by_its_sections(script: ModuleType) -> None:
    """Other sections have a State too; GPUs that differ are all told."""
    assert script.parse_smi(SMI) == {
        "cluster": "7b968a6d-c8aa-45e1-9e07-e1e51be99c31",
        "clique": "32766",
        "state": "Completed",
        "status": "Success",
        "chassis": "1820224130115",
        "tray": 5,
    }
    two = SMI + SMI.replace("Completed", "In Progress")
    assert script.parse_smi(two)["state"] == "Completed | In Progress"
    assert script.parse_smi("GPU 0\n    Fabric\n") is None


def rendered(fleet: Fleet, **options: Any) -> list[KubeObject]:
    return [
        item
        for item in render_region(fleet, "us-east", "platform", Options(**options))
        if "node-report" in item["metadata"]["name"]
    ]


def test_it_is_there_only_when_it_is_asked_for(make_fleet: MakeFleet) -> None:
    """The lab, which is bare, has no kubelet that could keep last words."""
    asked = make_fleet({"use1-r01": 4}, node_report={"image": IMAGE})
    assert [item["kind"] for item in rendered(asked)] == [
        *("ServiceAccount", "ConfigMap", "DaemonSet")
    ]
    assert rendered(asked, bare=True) == []
    assert rendered(make_fleet({"use1-r01": 4})) == []


def test_it_has_no_right_and_changes_nothing(make_fleet: MakeFleet) -> None:
    """No token, no root, no capability; the node's folders can only be looked at."""
    account, _, daemon = rendered(make_fleet({"use1-r01": 4}, node_report={"image": IMAGE}))
    assert account["automountServiceAccountToken"] is False
    pod = daemon["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    host = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounts = {m["name"]: m.get("readOnly", False) for m in container["volumeMounts"]}
        assert all(mounts[name] for name in host)
    assert "hostPID" not in pod


def test_its_command_is_the_scripts(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """What is rendered has to be what the script understands."""
    fleet = make_fleet({"use1-r01": 4}, node_report={"image": IMAGE, "folder": "/mnt/nvme/"})
    _, config, daemon = rendered(fleet)
    copy = tmp_path / "node-report.py"
    copy.write_text(config["data"]["node-report.py"])
    pod = daemon["spec"]["template"]["spec"]
    [first] = pod["initContainers"]
    words = [
        str(tmp_path / Path(word).name) if word.startswith(("/dev/", "/state/")) else word
        for word in first["command"][2:]
    ]
    subprocess.run([sys.executable, str(copy), *words], check=True, timeout=60)
    told = json.loads((tmp_path / "termination-log").read_text())
    assert told["schema"] == "k3fleet-node-report/1"
    assert "/mnt/nvme" in words
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert "/mnt/nvme" in paths


def test_a_claim_for_weights_needs_no_folder_on_nodes(make_fleet: MakeFleet) -> None:
    """A folder that no node has would keep the pods from starting."""
    fleet = make_fleet({"use1-r01": 4}, node_report={"image": IMAGE})
    _, _, daemon = rendered(fleet, weights_claim="weights")
    volumes = daemon["spec"]["template"]["spec"]["volumes"]
    assert "weights" not in {volume["name"] for volume in volumes}
