"""The toolchain: what is found, what is built, and what an interrupted build leaves."""

from __future__ import annotations

import itertools
import os
import re
import signal
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml

from cli.wiring import cache_dir
from fleet.errors import ToolError
from lab.builds import (
    SCRATCH_PREFIX,
    SOURCES,
    Workshop,
    build_modules,
    built_folder,
    expected_minutes,
    needed_bytes,
)
from lab.tool_table import (
    ETCD_VERSION,
    GO_VERSION,
    KUBELAB,
    KUBERNETES_PROVIDER,
    KUBERNETES_VERSION,
    KWOK,
    KWOK_VERSION,
    PULUMI,
    PULUMI_VERSION,
    GoModule,
    wanted_tools,
)
from lab.toolchain import Found, Missing, Origin, Toolchain, ensure_tools, find_tools
from lab.version_memory import VersionMemory

MODULES = (KUBELAB, KWOK, PULUMI, KUBERNETES_PROVIDER)

# Answers what the builder asks, notes each build, and does what its variables say.
FAKE_GO = """#!/bin/sh
case $1 in
env)
    echo "${FAKE_VERSION-go1.26.8}"; echo "${FAKE_TOOLCHAIN-local}"
    echo "$FAKE_HOME/build"; echo "$FAKE_HOME/modules" ;;
mod)
    echo "{\\"Dir\\": \\"$FAKE_HOME/provider\\"}" ;;
build)
    /usr/bin/pwd >> "$FAKE_HOME/builds"
    if [ -n "$FAKE_OUTPUT" ]; then echo "$FAKE_OUTPUT"; exit 1; fi
    if [ -n "$FAKE_HANG" ]; then
        /bin/sleep 600 &
        echo $! > "$FAKE_HOME/compiler"
        wait
    fi
    if [ -n "$FAKE_GATE" ]; then
        while [ ! -e "$FAKE_GATE" ]; do /bin/sleep 0.05; done
    fi
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\n' > "$2"; /bin/chmod +x "$2" ;;
esac
"""


@dataclass
class Notes:
    """A progress that keeps what it is told, and may act on it."""

    steps: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    on_update: Callable[[str], None] = lambda text: None

    def step(self, name: str) -> None:
        self.steps.append(name)

    def update(self, text: str) -> None:
        self.texts.append(text)
        self.on_update(text)


@dataclass
class Bench:
    """A machine with a fake Go and nothing else on PATH."""

    home: Path
    environ: dict[str, str]
    notes: Notes = field(default_factory=Notes)

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    @property
    def tools(self) -> Path:
        return self.cache / "tools"

    @property
    def builds(self) -> list[str]:
        log = self.home / "builds"
        return [Path(line).name for line in log.read_text().split()] if log.exists() else []

    @property
    def scratch(self) -> list[Path]:
        return list(self.tools.glob(f"{SCRATCH_PREFIX}*"))

    def ensure(self, notes: Notes | None = None, **environ: str) -> Toolchain:
        return ensure_tools(
            cache_dir=self.cache,
            environ=self.environ | environ,
            progress=notes or self.notes,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    program(tmp_path / "bin" / "go", FAKE_GO)
    provider = tmp_path / "provider" / "cmd" / "pulumi-resource-kubernetes"
    provider.mkdir(parents=True)
    (provider / "schema.json").write_text('{"name": "kubernetes"}')
    (provider / "terraform-mapping.json").write_text("{ }")
    return Bench(
        home=tmp_path,
        environ={"PATH": str(tmp_path / "bin"), "FAKE_HOME": str(tmp_path)},
    )


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_everything_missing_is_built_once(bench: Bench) -> None:
    """The first run builds the four modules; the second finds them."""
    bench.ensure()
    bench.ensure()
    assert bench.builds == [module.name for module in MODULES]


def test_a_warm_run_needs_no_go(bench: Bench) -> None:
    """Go may be removed once the tools are built."""
    first = bench.ensure()
    (bench.home / "bin" / "go").unlink()
    assert bench.ensure() == first


def test_every_tool_is_in_the_bin_folder_by_its_name(bench: Bench) -> None:
    """One folder in front of PATH is all that a shell, or Pulumi's engine, needs."""
    toolchain = bench.ensure()
    programs = {tool.name for tool in wanted_tools()} - {"dynamo"}
    names = {file.name for file in toolchain.bin_dir.iterdir() if os.access(file, os.X_OK)}
    assert names == programs | {"pulumi-language-python"}


def test_a_build_leaves_no_scratch_folder(bench: Bench) -> None:
    """What is built is moved out of its scratch folder, and that is removed."""
    bench.ensure()
    assert bench.scratch == []


def test_the_cost_is_told_before_the_first_build(bench: Bench) -> None:
    """A user must be able to say no to half an hour and 18 GiB before they are spent."""
    bench.ensure()
    assert re.search(r"tens of minutes.* 18 GiB of disk", bench.notes.steps[0])


def test_each_build_is_a_step_with_an_end(bench: Bench) -> None:
    """Half an hour in one line would tell nobody what takes so long."""
    bench.ensure()
    first_words = [tuple(step.split()[:2]) for step in bench.notes.steps[1:]]
    assert first_words == [(word, module.name) for module in MODULES for word in ("build", "built")]


def test_fewer_cores_take_longer() -> None:
    """The announced time is for this machine, not for the one it was measured on."""
    one, four = (expected_minutes(MODULES, cores=cores) for cores in (1, 4))
    assert one > 2 * four


def test_go_missing_says_which_version_to_get(bench: Bench) -> None:
    """Without Go nothing can be built: that is the first thing a newcomer meets."""
    (bench.home / "bin" / "go").unlink()
    with pytest.raises(ToolError, match=r"go is not on PATH.*1\.26\.6 or newer"):
        bench.ensure()


def test_old_go_with_local_toolchain_is_refused(bench: Bench) -> None:
    """GOTOOLCHAIN=local forbids Go to fetch the release that go.mod asks for."""
    with pytest.raises(ToolError, match=r"go1\.24\.1 is too old.*GOTOOLCHAIN=auto"):
        bench.ensure(FAKE_VERSION="go1.24.1")


def test_old_go_that_may_update_itself_is_used(bench: Bench) -> None:
    """From 1.21 on Go fetches a newer Go by itself unless told not to."""
    bench.ensure(FAKE_VERSION="go1.24.1", FAKE_TOOLCHAIN="auto")
    assert len(bench.builds) == 4


def test_go_without_toolchains_is_refused(bench: Bench) -> None:
    """Go 1.20 does not know how to fetch another Go, whatever the setting."""
    with pytest.raises(ToolError, match=r"go1\.20\.3 is too old"):
        bench.ensure(FAKE_VERSION="go1.20.3", FAKE_TOOLCHAIN="auto")


def test_a_failed_build_shows_the_end_of_its_output(bench: Bench) -> None:
    """The reason is at the end; the rest is in the log that the message names."""
    output = "\n".join(f"main.go:{number}: wrong" for number in range(1, 31))
    with pytest.raises(ToolError) as caught:
        bench.ensure(FAKE_OUTPUT=output)
    message = str(caught.value)
    assert "main.go:11: wrong" in message
    assert "main.go:10: wrong" not in message
    assert str(bench.tools / "logs" / "kubelab.log") in message


def test_a_failed_build_leaves_no_scratch_folder(bench: Bench) -> None:
    """A failure may happen many times in a row; it must not eat the disk."""
    with pytest.raises(ToolError):
        bench.ensure(FAKE_OUTPUT="main.go:1: wrong")
    assert bench.scratch == []


@pytest.mark.parametrize(
    ("output", "meaning"),
    [
        ("go: x@v1: dial tcp: lookup proxy: no such host", "modules could not be fetched"),
        ("go: x@v1: module lookup disabled by GOPROXY=off", "modules could not be fetched"),
        ("go: x@v1: reading https://proxy/x: 403 Forbidden", "modules could not be fetched"),
        ("link: write $WORK/b001: no space left on device", "the disk is full"),
        ("k8s.io/api: compile: signal: killed", "for lack of memory"),
        ("verifying x@v1: checksum mismatch", "not the one go.sum names"),
        ("go: go.mod requires go >= 1.26.6 (running go 1.26.1)", "go is too old"),
    ],
)
def test_go_failures_are_told_in_words(bench: Bench, output: str, meaning: str) -> None:
    """Go's own words name neither the cause nor the remedy for someone new to Go."""
    with pytest.raises(ToolError, match=meaning):
        bench.ensure(FAKE_OUTPUT=output)


def interrupt_when(started: Path) -> Callable[[str], None]:
    """Make an `on_update` that is Ctrl-C as soon as a file is there and has content."""

    def interrupt(text: str) -> None:
        if started.exists() and started.read_text().strip():
            raise KeyboardInterrupt

    return interrupt


def test_an_interrupt_ends_the_compilers(bench: Bench) -> None:
    """Compilers left behind would keep two cores busy for minutes."""
    started = bench.home / "compiler"
    bench.notes.on_update = interrupt_when(started)
    with pytest.raises(KeyboardInterrupt):
        bench.ensure(FAKE_HANG="1")
    pid = int(started.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_an_interrupt_leaves_no_scratch_folder(bench: Bench) -> None:
    """Ctrl-C is how a user says: not now. Nothing half-done may stay."""
    bench.notes.on_update = interrupt_when(bench.home / "compiler")
    with pytest.raises(KeyboardInterrupt):
        bench.ensure(FAKE_HANG="1")
    assert bench.scratch == []


def test_an_interrupt_keeps_what_is_built(bench: Bench) -> None:
    """The second try goes on where the first one was stopped."""
    bench.notes.on_update = interrupt_when(bench.home / "compiler")
    only(bench, KUBELAB, KWOK)
    with pytest.raises(KeyboardInterrupt):
        bench.ensure(FAKE_HANG="1")
    bench.ensure(Notes())
    assert bench.builds == ["kubelab", "kwok", "pulumi", "pulumi", "pulumi-resource-kubernetes"]


def test_sigterm_unwinds_like_an_interrupt(bench: Bench) -> None:
    """CI ends a job by SIGTERM; its default would leave the compilers running."""
    started = bench.home / "compiler"

    def terminate(text: str) -> None:
        if started.exists() and started.read_text().strip():
            os.kill(os.getpid(), signal.SIGTERM)

    bench.notes.on_update = terminate
    with pytest.raises(SystemExit, match="143"):
        bench.ensure(FAKE_HANG="1")
    assert bench.scratch == []


def only(bench: Bench, *modules: GoModule) -> None:
    """Build some modules and not the others."""
    workshop = Workshop(folder=bench.tools, progress=Notes())
    build_modules(modules, workshop=workshop, environ=bench.environ)


def test_scratch_of_a_killed_run_is_swept(bench: Bench) -> None:
    """SIGKILL leaves no time to tidy up; the next run does it."""
    left = bench.tools / f"{SCRATCH_PREFIX}kubelab-left"
    left.mkdir(parents=True)
    bench.ensure()
    assert not left.exists()


def test_two_runs_at_once_build_each_module_once(bench: Bench) -> None:
    """Two terminals, or CI and a terminal, must not compile the same 30 minutes twice."""
    gate = bench.home / "gate"

    def open_gate(text: str) -> None:
        if "another k3fleet" in text:
            gate.touch()

    results: list[Toolchain] = []
    runs = [
        threading.Thread(
            target=lambda: results.append(
                bench.ensure(Notes(on_update=open_gate), FAKE_GATE=str(gate))
            )
        )
        for _ in range(2)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert (len(results), results[0] == results[1]) == (2, True)
    assert sorted(bench.builds) == sorted(module.name for module in MODULES)


def test_a_full_disk_is_told_before_the_build(bench: Bench) -> None:
    """A build that dies after twenty minutes for lack of space is twenty minutes lost."""
    workshop = Workshop(
        folder=bench.tools, progress=bench.notes, free_bytes=lambda path: 2 * 1024**3
    )
    with pytest.raises(ToolError, match=r"needs 5\.8 GiB, 2\.0 GiB are free"):
        build_modules((KUBELAB,), workshop=workshop, environ=bench.environ)
    assert bench.builds == []


def test_needed_bytes_count_both_caches_and_the_binary() -> None:
    """Go's build cache is by far the largest of the three."""
    assert needed_bytes(KUBELAB) > KUBELAB.build_cache_bytes > KUBELAB.download_bytes


def test_an_unwritable_cache_is_a_message(bench: Bench) -> None:
    """A read-only home is a user's problem, not a traceback."""
    bench.cache.write_text("a file where a folder should be")
    with pytest.raises(ToolError, match="XDG_CACHE_HOME"):
        bench.ensure()


def test_nothing_is_written_into_the_source_tree(bench: Bench) -> None:
    """The project may be installed where the user cannot write."""
    before = sorted(SOURCES.rglob("*"))
    bench.ensure()
    assert sorted(SOURCES.rglob("*")) == before


def test_a_tool_of_the_pinned_version_on_path_is_used(bench: Bench) -> None:
    """Who has the tool need not build it."""
    mine = program(bench.home / "bin" / "kwok", "#!/bin/sh\necho kwok version v0.8.0 go1.26\n")
    found = find_tools(bench.cache, bench.environ["PATH"])["kwok"]
    assert isinstance(found, Found)
    assert (found.path, found.origin) == (mine, Origin.PATH)


def test_a_pinned_tool_behind_another_version_is_used(bench: Bench) -> None:
    """PATH may hold an old kubectl before the right one."""
    program(bench.home / "old" / "kwok", "#!/bin/sh\necho kwok version v0.6.1\n")
    mine = program(bench.home / "bin" / "kwok", "#!/bin/sh\necho kwok version v0.8.0\n")
    path = os.pathsep.join([str(bench.home / "old"), bench.environ["PATH"]])
    found = find_tools(bench.cache, path)["kwok"]
    assert isinstance(found, Found)
    assert found.path == mine


def test_a_tool_of_another_version_is_not_used(bench: Bench) -> None:
    """A report must not depend on what else is installed."""
    program(bench.home / "bin" / "kwok", "#!/bin/sh\necho kwok version v0.6.1\n")
    found = find_tools(bench.cache, bench.environ["PATH"])["kwok"]
    assert isinstance(found, Missing)
    assert found.seen.endswith("bin/kwok: 0.6.1")


def test_a_program_is_asked_for_its_version_once(bench: Bench) -> None:
    """Asking all tools takes seconds; a warm run has one."""
    log = bench.home / "asked"
    text = f"#!/bin/sh\necho x >> {log}\necho kwok version v0.8.0\n"
    program(bench.home / "bin" / "kwok", text)
    for _ in range(2):
        find_tools(bench.cache, bench.environ["PATH"])
    assert log.read_text() == "x\n"


def test_a_changed_program_is_asked_again(bench: Bench) -> None:
    """An upgrade in place must not go unseen."""
    mine = program(bench.home / "bin" / "kwok", "#!/bin/sh\necho kwok version v0.8.0\n")
    find_tools(bench.cache, bench.environ["PATH"])
    program(mine, "#!/bin/sh\necho kwok version v0.10.0\n")
    assert isinstance(find_tools(bench.cache, bench.environ["PATH"])["kwok"], Missing)


def test_a_damaged_memory_is_forgotten(bench: Bench) -> None:
    """The file only saves time; losing it costs a second."""
    program(bench.home / "bin" / "kwok", "#!/bin/sh\necho kwok version v0.8.0\n")
    bench.tools.mkdir(parents=True)
    (bench.tools / "versions.json").write_text("{")
    assert isinstance(find_tools(bench.cache, bench.environ["PATH"])["kwok"], Found)


@pytest.mark.parametrize(
    ("name", "output", "version"),
    [
        ("etcd", "etcd Version: 3.7.3\nGit SHA: Not provided\nGo Version: go1.26.8\n", "3.7.3"),
        ("kube-apiserver", "Kubernetes v1.37.2\n", "1.37.2"),
        ("kubectl", "Client Version: v1.37.2\nKustomize Version: v5.8.1\n", "1.37.2"),
        ("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)\n", "0.8.0"),
        ("pulumi", "v3.274.1\n", "3.274.1"),
        ("envoy", "/x/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n", "1.40.0"),
        ("kwok", "usage: kwok\n", None),
    ],
)
def test_versions_are_read_from_what_tools_print(
    name: str, output: str, version: str | None
) -> None:
    """Lines as the real programs print them."""
    tool = next(tool for tool in wanted_tools() if tool.name == name)
    assert tool.version_in(output) == version


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_build_is_named_by_what_goes_into_it(bench: Bench, module: GoModule) -> None:
    """Another flag must not find the old build."""
    other = GoModule(
        name=module.name,
        package=module.package,
        variables=(*module.variables, ("main.x", "1")),
        programs=module.programs,
        cpu_s=module.cpu_s,
        memory_bytes=module.memory_bytes,
        build_cache_bytes=module.build_cache_bytes,
        download_bytes=module.download_bytes,
    )
    assert built_folder(bench.tools, module) != built_folder(bench.tools, other)


def go_mod(name: str) -> str:
    return (SOURCES / name / "go.mod").read_text()


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("kubelab", f"k8s.io/kubernetes v{KUBERNETES_VERSION}"),
        ("kubelab", f"go.etcd.io/etcd/server/v3 v{ETCD_VERSION}"),
        ("kwok", f"sigs.k8s.io/kwok v{KWOK_VERSION}"),
        ("pulumi", f"github.com/pulumi/pulumi/pkg/v3 v{PULUMI_VERSION}"),
    ],
)
def test_the_table_pins_what_go_mod_pins(folder: str, line: str) -> None:
    """Two places name each version; they must not drift apart."""
    assert re.search(rf"^(?:require )?\s*{re.escape(line)}\b", go_mod(folder), re.MULTILINE)


def test_the_asked_go_is_the_highest_any_module_asks_for() -> None:
    """A lower one would fail in the middle of the build."""
    lines = (re.search(r"^go (\S+)", go_mod(module.name), re.MULTILINE) for module in MODULES)
    versions = [tuple(map(int, line[1].split("."))) for line in lines if line]
    assert max(versions) == GO_VERSION


def test_no_two_modules_make_the_same_program() -> None:
    """The folder on PATH has one place per name."""
    names = list(itertools.chain.from_iterable(module.programs for module in MODULES))
    assert sorted(names) == sorted(set(names))


def test_kwok_runs_nodes_and_no_pods() -> None:
    """The process kubelet runs pods; KWOK marking them Running would hide their failures."""
    stages = yaml.safe_load_all((SOURCES / "kwok" / "stages.yaml").read_text())
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages} == {"Node"}


BUILT = cache_dir(os.environ)


@pytest.mark.parametrize("name", [tool.name for tool in wanted_tools() if tool.name != "dynamo"])
def test_a_built_tool_says_the_version_it_was_built_for(name: str, tmp_path: Path) -> None:
    """The linker flags set it; a tool on PATH is recognised by it."""
    found = find_tools(BUILT, "")[name]
    if isinstance(found, Missing):
        pytest.skip(f"{name} is not built yet: run `k3fleet rehearse` once")
    memory = VersionMemory(file=tmp_path / "versions.json", path=os.environ["PATH"])
    assert memory.version(found.tool, found.path) == found.tool.version
