"""Syncs in processes that may be killed, forked from one that has imported everything.

A sync that is killed twenty times would else spend most of its time importing boto3.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from s3_servers import CREDENTIALS
from weights_site import Site

from fleet.weights_spec import StoreSpec
from infra.weights.store import connect
from lab.interrupts import Interrupted, interruptible

LIMIT_S = 300  # of one sync; it ends by SIGALRM then, which no test expects


@dataclass(frozen=True, slots=True)
class Sync:
    """A sync that runs."""

    pid: int
    server: Forks

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> tuple[int, str]:
        """Wait for its end; give its exit code (negative: the signal), and what it said."""
        code, said = self.server.read()
        return code, said


@dataclass(frozen=True, slots=True)
class Forks:
    """The process that forks; one sync at a time."""

    process: subprocess.Popen[str]

    def start(self, site: Site) -> Sync:
        """Begin a sync of a site."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(site.told()) + "\n")
        self.process.stdin.flush()
        return Sync(self.read(), self)

    def read(self) -> Any:
        """Read one answer."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@contextmanager
def forks() -> Iterator[Forks]:
    """Run the process until the block ends."""
    with subprocess.Popen(
        [sys.executable, __file__],
        env={**CREDENTIALS, "PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield Forks(process)


def _serve() -> None:
    connect(StoreSpec(bucket="k3-w"), 1)  # reads what each child would read else
    for line in sys.stdin:
        told = json.loads(line)
        said = Path(told["folder"], "said.txt")
        said.touch()
        pid = os.fork()
        if pid == 0:
            _sync(told, said)
        _tell(pid)
        _, status = os.waitpid(pid, 0)
        _tell((os.waitstatus_to_exitcode(status), said.read_text()))


def _tell(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _sync(told: dict[str, Any], said: Path) -> None:
    """Be the child: it never returns."""
    code = 1
    try:
        with said.open("w") as out:
            os.dup2(out.fileno(), 2)
        signal.alarm(LIMIT_S)
        with interruptible():
            Site.of(told).sync()
        code = 0
    except Interrupted as interrupted:
        code = interrupted.exit_code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
