"""How vLLM's config classes become flags."""

from __future__ import annotations

from typing import Any

import pytest
from fake_wheels import by_flag, fake_wheel

from infra.flag_sources.program import Program
from infra.flag_sources.vllm import read_vllm
from infra.flag_sources.wheel import open_wheel

CONFIG = '''
from typing import Literal
from enum import Enum
from pydantic import Field

class Backend(Enum):
    FLASHINFER_MLA = 1
    TOKENSPEED_MLA = 2

@config
class LoadConfig:
    name: str = "auto"

@config
class Attention:
    backend: Backend | None = None
    split: bool = False
    load: LoadConfig = Field(default_factory=LoadConfig)
    _cache: int = 0

@config
class Parallel:
    dcp: int = 1
    """Size of the group."""
    kv_dtype: Literal["auto", "fp8"] = "auto"
    load_format: str | Literal["auto", "fastsafetensors"] = "auto"
    max_num_batched_tokens: int | None = None
    prefix_caching: bool = True
    attention: Attention = Field(default_factory=Attention)
    sizes: list[int] | None = None
    pair: tuple[int, int] = (1, 1)
    overrides: dict[str, int] = Field(default_factory=dict)
'''
ARGUMENTS = """
from vllm.config import Parallel
class AsyncEngineArgs:
    @staticmethod
    def add_cli_args(parser):
        group = parser.add_argument_group("Parallel")
        given = get_kwargs(Parallel)
        for name in given:
            group.add_argument(f"--{name.replace('_', '-')}", **given[name])
        group.add_argument("--enable-lora", action=argparse.BooleanOptionalAction)
        return parser
def get_kwargs(cls):
    return compute(cls)
"""
SERVE = """
from vllm.engine.arg_utils import AsyncEngineArgs
def make_arg_parser(parser):
    parser.add_argument("--headless", action="store_true")
    return AsyncEngineArgs.add_cli_args(parser)
"""
ENVS = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    VLLM_PORT: int = 8000
    VLLM_LAYOUT: str = "SD"
environment_variables = {
    "VLLM_PORT": lambda: int(os.getenv("VLLM_PORT", "8000")),
    "VLLM_LAYOUT": env_with_choices("VLLM_LAYOUT", "SD", ["SD", "DS"]),
    # Deprecated: use VLLM_PORT.
    "VLLM_OLD": lambda: None,
}
"""
MEMBERS = {
    "vllm/__init__.py": "",
    "vllm/config/__init__.py": CONFIG,
    "vllm/engine/arg_utils.py": ARGUMENTS,
    "vllm/entrypoints/openai/cli_args.py": SERVE,
    "vllm/utils/argparse_utils.py": "class EnableDisableAction: ...",
    "vllm/envs.py": ENVS,
    "vllm/tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"kimi_k3": 1, "hermes": 2}',
    "vllm/worker.py": 'import os\nos.environ.get("VLLM_HIDDEN", "1")',
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read a small vLLM once."""
    wheel = fake_wheel(tmp_path_factory.mktemp("wheel"), "vllm", "9.9.9", MEMBERS)
    return read_vllm(Program([open_wheel(wheel)]))


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--dcp", {"type": "int", "default": 1}),
        ("--kv-dtype", {"type": "str", "choices": ["auto", "fp8"]}),
        ("--load-format", {"known_values": ["auto", "fastsafetensors"]}),
        ("--max-num-batched-tokens", {"type": "human_int", "default": None}),
        ("--prefix-caching", {"nargs": 0, "negative_flags": ["--no-prefix-caching"]}),
        ("--attention", {"type": "json", "config": "Attention"}),
        ("--sizes", {"type": "int", "nargs": "+"}),
        ("--pair", {"nargs": 2}),
        ("--overrides", {"type": "json"}),
        ("--enable-lora", {"negative_flags": ["--no-enable-lora", "--disable-lora"]}),
    ],
)
def test_the_type_of_a_field_decides_the_flag(
    found: dict[str, Any], flag: str, expected: dict[str, Any]
) -> None:
    """vLLM writes no `add_argument` for its configs: the annotation is the declaration."""
    entry = by_flag(found["flags"])[flag]
    assert {key: entry[key] for key in expected} == expected


def test_flags_of_the_server_are_told_from_flags_of_the_engine(found: dict[str, Any]) -> None:
    """Dynamo's worker takes the engine's flags only."""
    scopes = {flag: entry["scope"] for flag, entry in by_flag(found["flags"]).items()}
    assert scopes["--headless"] == "frontend"
    assert scopes["--dcp"] == "engine"


def test_the_keys_of_a_json_argument_are_the_fields_of_its_class(found: dict[str, Any]) -> None:
    """An unknown key stops the engine; one that the engine sets itself is marked."""
    assert found["configs"]["Attention"] == {
        "backend": {
            "type": "str",
            "known_values": ["FLASHINFER_MLA", "TOKENSPEED_MLA"],
            "optional": True,
            "default": None,
        },
        "split": {"type": "bool", "default": False},
        "load": {"type": "json", "internal": True},
    }


def test_variables_have_type_choices_and_deprecation(found: dict[str, Any]) -> None:
    """The reader enforces the choices, a comment says what is deprecated."""
    assert found["env"] == [
        {"name": "VLLM_LAYOUT", "type": "str", "default": "SD", "choices": ["SD", "DS"]},
        {"name": "VLLM_OLD", "deprecated": True},
        {"name": "VLLM_PORT", "type": "int", "default": 8000},
    ]


def test_variables_outside_the_table_are_listed_apart(found: dict[str, Any]) -> None:
    """They are read, so they must not be called unknown."""
    assert found["env_elsewhere"] == ["VLLM_HIDDEN"]


def test_parsers_come_from_their_registry(found: dict[str, Any]) -> None:
    """argparse takes any name; the start does not."""
    assert found["registries"]["tool_call_parsers"] == ["hermes", "kimi_k3"]
