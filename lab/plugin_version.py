"""Print the version of a Pulumi plugin: it has no flag for that, but answers a call.

    python -m lab.plugin_version PATH

A program of its own, so that the gRPC library is loaded only when a plugin on
PATH has to be asked.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import grpc
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderStub

# A plugin wants its engine's address. It dials on first use, which never comes.
NO_ENGINE = "127.0.0.1:9"
CALL_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0


def plugin_version(program: str) -> str:
    """Start a plugin, ask it, end it."""
    with subprocess.Popen(
        [program, NO_ENGINE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as plugin:
        # A program that is no plugin may never say a port.
        deadline = threading.Timer(ANSWER_TIMEOUT_S, plugin.kill)
        deadline.start()
        try:
            assert plugin.stdout is not None  # noqa: S101 - it is a pipe, two lines above
            port = int(plugin.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                answer = ResourceProviderStub(channel).GetPluginInfo(
                    Empty(), timeout=CALL_TIMEOUT_S, wait_for_ready=True
                )
            return str(answer.version)
        finally:
            deadline.cancel()
            plugin.kill()


if __name__ == "__main__":
    sys.stdout.write(plugin_version(sys.argv[1]) + "\n")
