"""Say what a node of a rack is made of: kernel, driver, IMEX service, disks, NVLink fabric.

Runs in a pod on every node of a rack, with nothing but the standard library and without any right
at the API server: its last words, which kubelet keeps in the pod's status, are the report. By hand
on a node, `python3 node-report.py --folder /mnt/k3fleet/weights > NODE.json` prints it.

Only facts, no judgement, and nothing secret: versions, states and sizes. What cannot be found out
is null.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SCHEMA = "k3fleet-node-report/1"
LONGEST = 120  # characters of a text; the whole has to fit into the 4096 bytes that kubelet keeps
SMI_TIMEOUT_S = 30
UNIT = "nvidia-imex.service"
UNIT_FOLDERS = ("etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system")
SLICE = "sys/fs/cgroup/system.slice"
MAX_READ = 64 * 1024

Json = dict[str, Any]


def report(host: Path, folder: str) -> Json:
    """Collect everything. `host`: where the node's own folders are seen."""
    return {
        "schema": SCHEMA,
        "node": short(os.environ.get("NODE_NAME") or platform.node()),
        "arch": short(platform.machine()),
        "kernel": short(platform.release()),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "driver": driver(),
        "gpus": gpus(),
        "imex": imex(host),
        "disk": disk(host, folder),
        "fabric": fabric(),
    }


def driver() -> str | None:
    """Give the version of NVIDIA's kernel module."""
    if version := read(Path("/sys/module/nvidia/version")).strip():
        return short(version)
    for word in read(Path("/proc/driver/nvidia/version")).split():
        if word[:1].isdigit() and word.count(".") >= 1:
            return short(word)
    return None


def gpus() -> int | None:
    """Count the GPUs that the driver has."""
    try:
        return len(list(Path("/proc/driver/nvidia/gpus").iterdir()))
    except OSError:
        return None


def imex(host: Path) -> Json:
    """Say how the host's nvidia-imex service stands; ComputeDomains need its port."""
    running: bool | None = None
    if (host / SLICE).is_dir():
        running = (host / SLICE / UNIT).is_dir()
    return {"state": imex_state(host), "running": running}


def imex_state(host: Path) -> str:
    folders = [host / name for name in UNIT_FOLDERS]
    if not any(folder.is_dir() for folder in folders):
        return "unknown"
    units = [folder / UNIT for folder in folders]
    # The first that exists counts, as for systemd; a link to /dev/null or an empty file is a mask.
    found = next((unit for unit in units if unit.is_symlink() or unit.exists()), None)
    if found is None:
        return "absent"
    if found.is_symlink() and found.readlink() == Path("/dev/null"):
        return "masked"
    if found.is_file() and found.stat().st_size == 0:
        return "masked"
    wants = [path / UNIT for folder in folders for path in folder.glob("*.wants")]
    # Links of the node lead nowhere in a pod, and are links all the same.
    return "enabled" if any(p.is_symlink() or p.exists() for p in wants) else "disabled"


def disk(host: Path, folder: str) -> Json | None:
    """Say what a folder of the node lies on."""
    path = host / folder.lstrip("/")
    try:
        device = path.stat().st_dev
        space = os.statvfs(path)
    except OSError:
        return None
    block = Path("/sys/dev/block") / f"{os.major(device)}:{os.minor(device)}"
    kind, members = kind_of(block.resolve()) if block.exists() else ("other", 0)
    return {
        "path": short(folder),
        "device": short(block.resolve().name if block.exists() else "no block device"),
        "kind": kind,
        "members": members,
        "bytes": space.f_blocks * space.f_frsize,
    }


def kind_of(block: Path) -> tuple[str, int]:
    """Tell a RAID0 of NVMe disks from anything else, through partitions and volume managers."""
    if not (block / "slaves").is_dir() and (block.parent / "slaves").is_dir():
        block = block.parent  # a partition
    if level := read(block / "md" / "level").strip():
        count = sum(leaf.startswith("nvme") for leaf in leaves(block))
        return ("raid0" if level == "raid0" else "raid"), count
    below = slaves(block)
    if len(below) == 1:
        return kind_of(below[0])
    names = leaves(block)
    return ("nvme", len(names)) if all(n.startswith("nvme") for n in names) else ("other", 0)


def slaves(block: Path) -> list[Path]:
    try:
        return [link.resolve() for link in sorted((block / "slaves").iterdir())]
    except OSError:
        return []


def leaves(block: Path) -> list[str]:
    """Name the disks at the bottom."""
    below = slaves(block)
    return [leaf for each in below for leaf in leaves(each)] if below else [block.name]


def fabric() -> Json | None:
    """Read fabric and place in the rack from nvidia-smi, where the image or the runtime has it."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-q"], capture_output=True, timeout=SMI_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_smi(done.stdout.decode(errors="replace"))


def parse_smi(text: str) -> Json | None:
    """Take the fields of all GPUs; where they differ, all of them are told."""
    found: dict[tuple[str, str], set[str]] = {}
    section = ""
    for line in text.splitlines():
        name, colon, value = line.strip().partition(" : ")
        if not colon:
            section = name.rstrip(" :")
        else:
            found.setdefault((section, name.strip()), set()).add(value.strip())

    def told(section: str, name: str) -> str:
        values = found.get((section, name), set()) - {"N/A"}
        return short(" | ".join(sorted(values)))

    if ("Fabric", "State") not in found:
        return None
    tray = told("Platform Info", "Tray Index")
    return {
        "cluster": told("Fabric", "ClusterUUID"),
        "clique": told("Fabric", "CliqueId"),
        "state": told("Fabric", "State"),
        "status": told("Fabric", "Status"),
        "chassis": told("Platform Info", "Chassis Serial Number"),
        "tray": int(tray)
        if tray.isascii() and tray.isdigit() and len(tray) <= len("999")
        else None,
    }


def read(path: Path) -> str:
    """Read a small file of the kernel; empty where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_READ).decode(errors="replace")
    except OSError:
        return ""


def short(text: str) -> str:
    """Cut a text, and keep only what JSON writes as one byte or two."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:LONGEST])


def write(path: Path, text: str) -> None:
    """Write in place: the file of a container's last words cannot be replaced."""
    with path.open("w", encoding="ascii") as file:
        file.write(text)


def watch(host: Path, folder: str, out: Path, keep: Path, every_s: float) -> None:
    """End with a new report once something has changed; kubelet then starts this anew."""
    while True:
        time.sleep(every_s)
        text = json.dumps(report(host, folder))
        if text != read(keep):
            write(keep, text)
            write(out, text)
            return


def stop(_signal: int, _frame: object) -> None:
    """End at once; as the first process of a container, Python would ignore the signal."""
    sys.exit(0)


def main() -> None:
    """Print a report, write it, or watch until it changes."""
    parser = argparse.ArgumentParser(description="Say what a node of a rack is made of.")
    parser.add_argument("--folder", default="/mnt/k3fleet/weights", help="where weights lie")
    parser.add_argument("--host", type=Path, default=Path("/"), help="the node's root")
    parser.add_argument("--out", type=Path, help="write it here, not to stdout")
    parser.add_argument("--keep", type=Path, help="remember what was reported last")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="wait for a change")
    asked = parser.parse_args()
    if asked.watch is not None:
        watch(asked.host, asked.folder, asked.out, asked.keep, asked.watch)
        return
    text = json.dumps(report(asked.host, asked.folder))
    if asked.keep is not None:
        write(asked.keep, text)
    if asked.out is None:
        sys.stdout.write(text + "\n")
    else:
        write(asked.out, text)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    main()
