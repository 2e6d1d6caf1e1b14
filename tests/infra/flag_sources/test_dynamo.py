"""How Dynamo's components declare their flags and name their variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_wheels import by_flag, fake_wheel

from infra.flag_sources.dynamo import read_dynamo
from infra.flag_sources.program import Program
from infra.flag_sources.variables import named_in_libraries
from infra.flag_sources.wheel import open_wheel

HELPERS = """
from dynamo.common.configuration.utils import Deprecated, add_argument
from dynamo.common.configuration.utils import add_negatable_bool_argument
"""
FRONTEND = """
class FrontendArgGroup:
    def add_arguments(self, parser):
        add_argument(parser, flag_name="--http-port", env_var="DYN_HTTP_PORT", default=8000,
                     help="Port.", arg_type=int)
        add_argument(parser, flag_name="--router-mode", env_var="DYN_ROUTER_MODE", default="kv",
                     help="Mode.", choices=["kv", "random"], obsolete_flag="--mode")
        add_argument(parser, flag_name="--load", env_var="DYN_LOAD", default=None, help="Old.",
                     deprecated=Deprecated(replacement="--queue", remove_in="v1.7"))
"""
GROUP = """
class {0}:
    def add_arguments(self, parser):
        add_negatable_bool_argument(parser, flag_name="--{1}", env_var=None, default=False, help="")
        add_argument(parser, flag_name="--dyn-tool-call-parser", env_var="DYN_PARSER", default=None,
                     help="Name.")
"""
ROUTER = HELPERS + (
    'def add_worker_router_arguments(parser):\n    parser.add_argument("--router-reset")\n'
)
UTILITIES = """
def add_argument(*a): ...
def add_negatable_bool_argument(*a): ...
class Deprecated: ...
"""
CONFIGURATION = "dynamo/common/configuration"
MEMBERS: dict[str, str | bytes] = {
    f"{CONFIGURATION}/utils.py": UTILITIES,
    f"{CONFIGURATION}/groups/runtime_args.py": HELPERS
    + GROUP.format("DynamoRuntimeArgGroup", "runtime"),
    f"{CONFIGURATION}/groups/router_args.py": ROUTER,
    "dynamo/frontend/frontend_args.py": HELPERS + FRONTEND,
    "dynamo/vllm/backend_args.py": HELPERS + GROUP.format("DynamoVllmArgGroup", "own"),
    "dynamo/vllm/args.py": "from router import parse_worker_router_config",
    "dynamo/sglang/backend_args.py": HELPERS + GROUP.format("DynamoSGLangArgGroup", "own"),
    "dynamo/sglang/args.py": "",
    "dynamo/trtllm/backend_args.py": HELPERS + GROUP.format("DynamoTrtllmArgGroup", "own"),
    "dynamo/trtllm/args.py": 'import argparse\nif flag == "--publish-events-and-metrics": ...',
    "dynamo/mocker/args.py": "import argparse\ndef parse_args(argv=None):\n"
    "    parser = argparse.ArgumentParser()\n    parser.add_argument('--speedup', type=float)\n",
    "dynamo/other.py": 'import os\nos.getenv("DYN_PLANE", "tcp")',
    "dynamo/core.so": b"\0DYN_HTTP_PORTDYN_RACKDYN_LIMITExpected\0",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read a small Dynamo once."""
    wheel = fake_wheel(tmp_path_factory.mktemp("wheel"), "ai-dynamo", "9.9.9", MEMBERS)
    return read_dynamo(Program([open_wheel(wheel)]))


def test_the_helper_gives_a_flag_and_its_variable(found: dict[str, Any]) -> None:
    """Every flag of Dynamo can be set by a variable, which a pod may use instead."""
    entry = by_flag(found["components"]["frontend"]["flags"])["--http-port"]
    assert (entry["type"], entry["default"], entry["env"]) == ("int", 8000, "DYN_HTTP_PORT")


def test_an_obsolete_spelling_is_accepted_and_marked(found: dict[str, Any]) -> None:
    """Old command lines work; the name will go."""
    entry = by_flag(found["components"]["frontend"]["flags"])["--router-mode"]
    assert entry["flags"] == ["--router-mode", "--mode"]
    assert entry["obsolete_alias"] == "--mode"


def test_a_deprecation_says_what_to_use(found: dict[str, Any]) -> None:
    """The note is shown with the warning."""
    entry = by_flag(found["components"]["frontend"]["flags"])["--load"]
    assert (entry["deprecated"], entry["note"]) == (True, "replacement: --queue; remove_in: v1.7")


def test_a_worker_has_the_flags_of_its_groups(found: dict[str, Any]) -> None:
    """The runtime's group is shared; only a worker that advertises routing has router flags."""
    flags = {name: set(by_flag(part["flags"])) for name, part in found["components"].items()}
    shared = {"--runtime", "--own", "--dyn-tool-call-parser"}
    assert flags["vllm"] == shared | {"--router-reset"}
    assert flags["sglang"] == shared
    assert flags["trtllm"] == shared | {"--publish-events-and-metrics"}
    assert flags["mocker"] == {"--speedup"}


def test_a_flag_that_is_replaced_before_parsing_is_accepted(found: dict[str, Any]) -> None:
    """No parser declares it, and old command lines have it."""
    entry = by_flag(found["components"]["trtllm"]["flags"])["--publish-events-and-metrics"]
    assert entry["negative_flags"] == ["--no-publish-events-and-metrics"]
    assert (entry["deprecated"], entry["replacement"]) == (True, "--publish-kv-events")


def test_a_dynamo_without_a_worker_for_trtllm_is_read(tmp_path: Path) -> None:
    """Not each of its packages has one."""
    members = {path: text for path, text in MEMBERS.items() if "trtllm" not in path}
    wheel = fake_wheel(tmp_path, "ai-dynamo", "9.9.9", members)
    assert "trtllm" not in dict(read_dynamo(Program([open_wheel(wheel)])))["components"]  # type: ignore[operator]


def test_without_a_native_library_that_runs_no_parser_name_is_listed(found: dict[str, Any]) -> None:
    """An empty list of names would refuse every parser."""
    assert found["registries"] == {}
    assert "choices" not in by_flag(found["components"]["vllm"]["flags"])["--dyn-tool-call-parser"]


def test_variables_come_from_flags_source_and_libraries(found: dict[str, Any]) -> None:
    """Half of Dynamo is Rust; names there run into each other."""
    assert {each["name"]: each.get("uncertain", False) for each in found["env"]} == {
        "DYN_HTTP_PORT": False,
        "DYN_ROUTER_MODE": False,
        "DYN_LOAD": False,
        "DYN_PARSER": False,
        "DYN_PLANE": False,
        "DYN_RACK": False,
        "DYN_LIMITE": True,
    }


def test_a_name_with_the_next_text_stuck_to_it_is_left_out(tmp_path: Path) -> None:
    """`DYN_LIMIT` and `Expected` read as `DYN_LIMITE`; where `DYN_LIMIT` is known, it is that."""
    data = b"DYN_LIMIT\0DYN_LIMITExpected"
    wheel = open_wheel(fake_wheel(tmp_path, "x", "1", {"x.so": data}))
    assert named_in_libraries(Program([wheel]), "DYN_", ()) == {"DYN_LIMIT": False}
