"""Reports are taken from pods and files, whatever is in them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rack_world import PODS, RackWorld, cluster_of

from fleet.errors import ConfigError
from infra.racks.reports import MAX_FILES, collect, dra_versions, from_folder, from_pods

REPORT = {
    "schema": "k3fleet-node-report/1",
    "node": "n1",
    "arch": "aarch64",
    "kernel": "6.12.0",
}


def pod(*ended: tuple[str, str], ready: str = "True", waiting: str | None = None) -> dict[str, Any]:
    """Describe a report's pod: its first container's last words, then those of the second."""
    states = [{"terminated": {"finishedAt": at, "message": said}} for at, said in ended]
    first, later = [*states, {}, {}][:2]
    running = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    return {
        "spec": {"nodeName": "n1"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "initContainerStatuses": [{"name": "report", "state": first}],
            "containerStatuses": [{"name": "watch", "state": running, "lastState": later}],
        },
    }


def words(**changes: object) -> str:
    return json.dumps({**REPORT, **changes})


def test_the_newest_words_count() -> None:
    """A driver that was upgraded is reported by the second container."""
    old, new = words(driver="580.1"), words(driver="580.2")
    told = pod(("2026-11-30T10:00:00Z", old), ("2026-11-30T12:00:00Z", new))
    reports, missing = from_pods([told])
    assert (reports["n1"].driver, missing) == ("580.2", {})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pod(ready="False", waiting="ImagePullBackOff"), "its pod is not Ready (ImagePullBackOff)"),
        (pod(("2026-11-30T10:00:00Z", words()), ready="False"), "its pod is not Ready"),
        (pod(), "its pod has said nothing"),
        (pod(("2026-11-30T10:00:00Z", "Traceback …")), "no report: Invalid JSON"),
        (pod(("2026-11-30T10:00:00Z", words(node="n2"))), "a report that calls itself n2"),
        (pod(("2026-11-30T10:00:00Z", words(kernel="\n" * 200))), "no report: kernel"),
        ({"spec": {"nodeName": "n1"}}, "its pod is not Ready"),
    ],
)
def test_what_is_no_report_is_missing(given: dict[str, Any], why: str) -> None:
    """With the reason, and never as a report that says nothing bad."""
    reports, missing = from_pods([given])
    assert reports == {}
    assert missing["n1"].startswith(why)


def test_files_are_read_as_well(tmp_path: Path) -> None:
    """Collected by ssh, for example, before there is a cluster; one bad file is named."""
    (tmp_path / "a.json").write_text(words() + "\n")
    (tmp_path / "n2.json").write_text("no\n")
    (tmp_path / "n3.json").write_bytes(b"x" * 10_000)
    reports, missing = from_folder(tmp_path)
    assert set(reports) == {"n1"}
    assert missing["n3"] == "a report of 10000 bytes, 4096 are allowed"
    assert missing["n2"].startswith("no report")


def test_two_reports_of_one_node_are_refused(tmp_path: Path) -> None:
    """Nobody can tell which one is true."""
    (tmp_path / "a.json").write_text(words())
    (tmp_path / "b.json").write_text(words())
    with pytest.raises(ConfigError, match=r"b\.json: a second report of node n1"):
        from_folder(tmp_path)


def test_an_empty_folder_is_a_mistake(tmp_path: Path) -> None:
    """Else every node would be unknown, and nobody would know why."""
    with pytest.raises(ConfigError, match=f"holds 0 files .*1 to {MAX_FILES}"):
        from_folder(tmp_path)


def test_the_dra_driver_is_known_by_its_image() -> None:
    """Under both names that its charts have had; a digest may follow the tag."""
    world = RackWorld()
    images = {
        "nvidia-dra-driver-gpu-component": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0",
        "dra-driver-nvidia-gpu-component": "host:5000/dra:v0.5.1@sha256:00",
        "other": "x:v9",
    }
    for number, (label, image) in enumerate(images.items()):
        labels = {label: "kubelet-plugin", "k3fleet.io/replica": "x"}
        spec = {"nodeName": f"n{number}", "containers": [{"name": "c", "image": image}]}
        world.add(PODS, {"metadata": {"name": f"p{number}", "labels": labels}, "spec": spec})
    assert dra_versions(cluster_of(world)) == {"n0": "v25.12.0", "n1": "v0.5.1"}


def test_pods_of_the_namespace_are_asked() -> None:
    """By their name, and no other pod's words count."""
    world = RackWorld()
    for name, node in (("node-report", "n1"), ("other", "n2")):
        told = pod(("2026-11-30T10:00:00Z", words(node=node)))
        told["spec"] |= {"nodeName": node, "containers": []}
        for status in ("initContainerStatuses", "containerStatuses"):
            for container in told["status"][status]:
                container |= {"image": "x", "imageID": "x", "ready": True, "restartCount": 0}
                for state in ("state", "lastState"):
                    if ended := container.get(state, {}).get("terminated"):
                        ended["exitCode"] = 0
        labels = {"app.kubernetes.io/name": name, "k3fleet.io/replica": "x"}
        world.add(PODS, {"metadata": {"name": name, "labels": labels}, **told})
    assert set(collect(cluster_of(world), None).reports) == {"n1"}


def test_a_pipe_among_reports_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "n1.json")
    reports, missing = from_folder(tmp_path)
    assert (reports, missing) == ({}, {"n1": "cannot be read: it is not a regular file"})
