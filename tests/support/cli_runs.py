"""Run the command line as a user does: as a process, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

K3FLEET = str(Path(sys.executable).with_name("k3fleet"))
MORTAL = Path(__file__).with_name("mortal_driver.py")
# One run is about a minute; the limit only ends a run that hangs.
RUN_TIMEOUT_S = 600

SMALL_FLEET = """\
apiVersion: k3fleet/v1
name: small
release: vllm-tp8-dcp8
frontends: {replicas: 1}
router: ROUTER
regions:
  - name: us-east
    racks:
      - {id: use1-r01, healthy_nodes: NODES, replicas: 4}
  - name: eu-west
    racks:
      - {id: euw1-r01, replicas: 3}
"""


@dataclass(frozen=True)
class Ended:
    """What a finished command left."""

    code: int
    out: str
    err: str
    work_dir: Path

    @property
    def report(self) -> dict[str, Any]:
        """The report of the latest run."""
        text = (self.work_dir / "runs" / "latest" / "report.json").read_text()
        report: dict[str, Any] = json.loads(text)
        return report


@dataclass
class Here:
    """A folder in which commands are run; everything they start must be gone afterwards."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def work_dir(self) -> Path:
        """Where the lab of the folder's fleet lives."""
        return self.folder / "work"

    def fleet(self, *, router: str = "{}", nodes: int = 18) -> Path:
        """Write the small fleet file."""
        path = self.folder / "fleet.yaml"
        path.write_text(SMALL_FLEET.replace("ROUTER", router).replace("NODES", str(nodes)))
        return path

    def start(self, *arguments: str, point: str = "") -> subprocess.Popen[str]:
        """Start a command without waiting; `point`: of `mortal_driver`."""
        program = [sys.executable, str(MORTAL), point] if point else [K3FLEET]
        process = subprocess.Popen(
            [*program, *arguments, "--work-dir", str(self.work_dir)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for a command."""
        out, err = process.communicate(timeout=RUN_TIMEOUT_S)
        return Ended(process.returncode, out, err, self.work_dir)

    def run(self, *arguments: str) -> Ended:
        """Run a command to its end."""
        return self.end(self.start(*arguments))

    def processes(self, argument: str = "") -> list[psutil.Process]:
        """Find processes that work in this folder, and have an argument if one is given."""
        found = []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()  # once: the process may be gone a moment later
                ours = str(self.folder) in " ".join([process.cwd(), *words])
                if ours and (not argument or argument in words):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found
