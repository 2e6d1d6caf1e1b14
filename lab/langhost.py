"""Serve Pulumi's language protocol for Python: how `pulumi up` runs our programs.

The official host cannot be had as a Go module. The engine starts this one as
`pulumi-language-python [flags] ENGINE_ADDRESS`, reads our port from the first
line on stdout, and then calls. Each program runs in an interpreter of its own
(`langexec.py`), as the engine promises to its users.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict

# Pulumi's generated modules need this one's descriptors, but do not import it.
from pulumi.runtime.proto.codegen import loader_pb2  # noqa: F401
from pulumi.runtime.proto.language_pb2 import (
    AboutResponse,
    DependencyInfo,
    GetProgramDependenciesResponse,
    GetRequiredPackagesResponse,
    GetRequiredPluginsResponse,
    InstallDependenciesResponse,
    LanguageHandshakeResponse,
    ProgramInfo,
    RunPluginRequest,
    RunPluginResponse,
    RunRequest,
    RunResponse,
    RuntimeOptionsResponse,
)
from pulumi.runtime.proto.language_pb2_grpc import (
    LanguageRuntimeServicer,
    add_LanguageRuntimeServicer_to_server,
)
from pulumi.runtime.proto.plugin_pb2 import PackageDependency, PluginDependency, PluginInfo
from typing_extensions import override

from lab.langplugin import POLICY_KIND, Plugins

# Pulumi's own limit, for large resources.
MAX_MESSAGE_BYTES = 400 * 1024 * 1024
TOLD_USER = 32  # langexec.TOLD_USER, which cannot be imported without running a program's SDK
STOP_GRACE_S = 3.0
CALL_THREADS = 8
EXECUTOR = Path(__file__).with_name("langexec.py")


@dataclass(slots=True)
class Programs:
    """The programs under way, so that a signal or a Cancel can end them."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def run(self, python: Path, request: dict[str, Any]) -> int:
        """Run one program and return its exit code.

        The request, with the stack's secrets in it, goes through a pipe: an
        argument or a variable could be read by others. The pipe stays open as
        long as we live.
        """
        argv = [str(python), "-P", "-u", str(EXECUTOR)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, cwd=request["folder"]) as child:
            with self._lock:
                self._running.add(child)
                if self._ended:
                    child.terminate()
            try:
                assert child.stdin is not None  # noqa: S101 - it is a pipe
                try:
                    child.stdin.write(json.dumps(request).encode() + b"\n")
                    child.stdin.flush()
                except BrokenPipeError:  # it was ended; what is left would be written at exit
                    with contextlib.suppress(BrokenPipeError):
                        child.stdin.close()
                return child.wait()
            finally:
                with self._lock:
                    self._running.discard(child)

    def end(self) -> None:
        """End all programs, by force after a grace period, and start no more."""
        with self._lock:
            self._ended = True
            children = list(self._running)
        for child in children:
            child.terminate()
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(STOP_GRACE_S)
                continue
            child.kill()


@dataclass(slots=True)
class Host(LanguageRuntimeServicer):
    """Answers the engine. What is not answered here gets gRPC's UNIMPLEMENTED."""

    engine: str
    programs: Programs = field(default_factory=Programs)
    plugins: Plugins = field(default_factory=Plugins)

    @override
    def Handshake(self, request: Any, context: Any) -> LanguageHandshakeResponse:
        """Take the engine's address."""
        self.engine = request.engine_address
        return LanguageHandshakeResponse()

    @override
    def GetPluginInfo(self, request: Any, context: Any) -> PluginInfo:
        """Say which SDK this host goes with."""
        return PluginInfo(version=importlib.metadata.version("pulumi"))

    @override
    def About(self, request: Any, context: Any) -> AboutResponse:
        """Say which interpreter runs programs."""
        return AboutResponse(executable=sys.executable, version=platform.python_version())

    @override
    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> RuntimeOptionsResponse:
        """Ask nothing: there is nothing to choose."""
        return RuntimeOptionsResponse()

    @override
    def GetRequiredPlugins(self, request: Any, context: Any) -> GetRequiredPluginsResponse:
        """List the providers of the installed SDKs, as older engines ask for them."""
        plugins = [
            PluginDependency(name=name, kind="resource", version=version)
            for name, version in required_plugins()
        ]
        return GetRequiredPluginsResponse(plugins=plugins)

    @override
    def GetRequiredPackages(self, request: Any, context: Any) -> GetRequiredPackagesResponse:
        """List the providers of the installed SDKs."""
        packages = [
            PackageDependency(name=name, kind="resource", version=version)
            for name, version in required_plugins()
        ]
        return GetRequiredPackagesResponse(packages=packages)

    @override
    def GetProgramDependencies(self, request: Any, context: Any) -> GetProgramDependenciesResponse:
        """List the installed distributions, for `pulumi about`."""
        return GetProgramDependenciesResponse(
            dependencies=[
                DependencyInfo(name=distribution.name, version=distribution.version)
                for distribution in importlib.metadata.distributions()
            ]
        )

    @override
    def InstallDependencies(
        self, request: Any, context: Any
    ) -> Iterator[InstallDependenciesResponse]:
        """Install nothing: the requirement files are the only source of packages."""
        yield InstallDependenciesResponse(stdout=b"k3fleet's environment is used as it is.\n")

    @override
    def Cancel(self, request: Any, context: Any) -> Empty:
        """End the running programs and plugins."""
        self.programs.end()
        self.plugins.end()
        return Empty()

    @override
    def Run(self, request: RunRequest, context: Any) -> RunResponse:
        """Run a program to its end."""
        try:
            python = interpreter(request.info)
        except FileNotFoundError as error:
            return RunResponse(error=str(error))
        code = self.programs.run(python, program_request(request, engine=self.engine))
        if code == 0:
            return RunResponse()
        if code == TOLD_USER:
            return RunResponse(bail=True)
        return RunResponse(error=f"Program exited with non-zero exit code: {code}")

    @override
    def RunPlugin(self, request: RunPluginRequest, context: Any) -> Iterator[RunPluginResponse]:
        """Run a policy pack, which serves until the engine hangs up."""
        if request.kind != POLICY_KIND:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED, f"k3fleet's host runs no {request.kind} plugins"
            )
        try:
            python = interpreter(request.info)
        except FileNotFoundError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        yield from self.plugins.run(python, request, context)


def interpreter(info: ProgramInfo) -> Path:
    """Choose a program's interpreter: its `virtualenv` option, or the one that runs us."""
    options = MessageToDict(info.options) if info.HasField("options") else {}
    folder = options.get("virtualenv")
    if not folder:
        return Path(sys.executable)
    python = Path(info.root_directory, str(folder), "bin", "python")
    if not python.exists():
        raise FileNotFoundError(
            f"Pulumi.yaml: runtime.options.virtualenv: {python} does not exist. Make the "
            "virtual environment, or remove the option to use k3fleet's own."
        )
    return python


def program_request(request: RunRequest, *, engine: str) -> dict[str, Any]:
    """Translate the engine's request into what `langexec.py` reads."""
    info = request.info
    folder = request.pwd or info.program_directory
    return {
        "program": str(Path(info.program_directory or folder, info.entry_point or ".").absolute()),
        "folder": folder,
        "arguments": list(request.args),
        "config": dict(request.config),
        "secret_keys": list(request.configSecretKeys),
        "settings": {
            "monitor": request.monitor_address,
            "engine": engine,
            "project": request.project,
            "stack": request.stack,
            "parallel": request.parallel,
            "dry_run": request.dryRun,
            "organization": request.organization or "organization",
            "root_directory": info.root_directory or folder,
        },
    }


def required_plugins() -> Iterator[tuple[str, str]]:
    """Read name and version of the plugin that each installed provider SDK goes with."""
    for file in sorted(Path(sysconfig.get_path("purelib")).glob("*/pulumi-plugin.json")):
        plugin = json.loads(file.read_text())
        if plugin.get("resource"):
            version = plugin.get("version") or importlib.metadata.version(file.parent.name)
            yield plugin["name"], f"v{version}"


def serve(engine: str) -> None:
    """Serve until a signal comes: the engine ends its plugins by SIGINT."""
    host, stop = Host(engine), threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=CALL_THREADS),
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ],
    )
    add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stop.wait()
    host.programs.end()
    host.plugins.end()
    server.stop(grace=STOP_GRACE_S).wait()


if __name__ == "__main__":
    serve(next((word for word in reversed(sys.argv[1:]) if not word.startswith("-")), ""))
