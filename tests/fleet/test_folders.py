"""Which folders a file may name."""

from __future__ import annotations

import pytest

from fleet.folders import folder_fault, host_folder_fault


@pytest.mark.parametrize(
    "path",
    ["/mnt/k3fleet", "/var/lib/k3fleet", "/data", "/mnt/disks/ssd-0/kernel_cache", "/opt/a/"],
)
def test_a_folder_of_ones_own_is_taken(path: str) -> None:
    """Disks are mounted in many places."""
    assert host_folder_fault(path) is None


@pytest.mark.parametrize(
    "path",
    [
        *("/etc", "/etc/x", "//etc", "///etc/", "/./etc", "/proc", "/sys/kernel", "/dev/disk"),
        *("/var", "/var/lib", "/var/lib/kubelet", "/var/lib/kubelet/pods", "/run", "/usr/lib"),
    ],
)
def test_a_folder_of_the_system_is_refused(path: str) -> None:
    """Pods write there, and what lies above a system's folder holds it too."""
    fault = host_folder_fault(path)
    assert fault is not None
    assert "belongs to the node's system" in fault[0]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "mnt",
        "/mnt/../etc",
        "/mnt/a\nb",
        "/mnt/\x1b[2J",
        "/mnt/$(HOME)",
        "/m n",
        "/m;n",
    ],
)
def test_what_is_no_plain_path_is_refused(path: str) -> None:
    """Kubernetes fills in `$(NAME)`, and a newline would start a line of its own."""
    assert folder_fault(path) is not None


def test_a_path_has_an_end() -> None:
    """Linux takes 4,096 bytes, and names are added to it."""
    assert folder_fault("/" + "a" * 512) is not None
