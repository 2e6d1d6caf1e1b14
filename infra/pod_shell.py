"""Run a command in a pod: the load generator's page listens inside of its own pod only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from lightkube import Client
from lightkube.resources.core_v1 import Pod

from fleet.errors import ApplyError
from infra.load_apply import asked

NAME_LABEL = "app.kubernetes.io/name"
CONTAINER = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShell:
    """Commands in the pods of a namespace."""

    client: Client
    namespace: str

    def pods(self, name: str) -> tuple[str, ...]:
        """Name the running pods of a workload; raises ApplyError when there is none."""
        with asked(f"pods of {name}"):
            found = [
                str(pod.metadata.name)
                for pod in self.client.list(
                    Pod, namespace=self.namespace, labels={NAME_LABEL: name}
                )
                if pod.metadata and pod.status and pod.status.phase == "Running"
            ]
        if not found:
            raise ApplyError(
                f"{name}: no pod of it runs in {self.namespace}. "
                "Deploy it first (k3fleet loadtest deploy), or see `kubectl describe`."
            )
        return tuple(sorted(found))

    def run(self, pod: str, command: Sequence[str], out: BinaryIO, *, timeout_s: float) -> None:
        """Run a command in a pod and write what it prints; raises ApplyError when it fails."""
        with asked(f"{pod}: {command[0]}"):
            done = self.client.exec(
                pod,
                namespace=self.namespace,
                container=CONTAINER,
                command=list(command),
                stdout=out,
                stderr=True,
                timeout=timeout_s,
            )
        if done.exit_code:
            said = " ".join(str(done.stderr or "").split())[-300:]
            raise ApplyError(
                f"{pod}: {command[0]} ended with code {done.exit_code}: {said}. "
                "See the log of the pod."
            )
