"""How SGLang's annotated fields become flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_wheels import by_flag, fake_wheel

from infra.flag_sources.program import Program
from infra.flag_sources.sglang import read_sglang
from infra.flag_sources.wheel import open_wheel

FIELDS = """
    model_path: A[str, Arg(help="Path.", aliases=["--model"])]
    tp_size: A[int, Arg(help="Size.", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 1
    trust_remote_code: A[bool, "Whether to run the model's code."] = False
    kv_cache_dtype: A[str, Arg(help="Type.", choices=KV_TYPES)] = "auto"
    mode: A[Literal["null", "decode"], "Role."] = "null"
    hosts: A[Optional[list[str]], "Hosts."] = None
    sampling: A[str, Arg(help="Kernels.", no_cli=True)] = "auto"
    ratio: A[Optional[float], "Share."] = None
    algorithm: A[Optional[str], Arg(help="Way.", cli_name="--speculative-algorithm")] = None
    inner: int = 0
"""
HEAD = """
from sglang.srt.environ import envs
KV_TYPES = ["auto", "fp8_e4m3"]
"""
ADD = """
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        choices = set(["flashinfer"])
        if envs.SGLANG_ORACLE.get():
            choices.add("oracle")
        parser.add_argument(
            "--sampling", choices=choices, default=_declared_default("sampling")
        )
def add_cli_args_from_dataclass(parser, cls): ...
def _declared_default(name): ...
"""
ENVIRON = """
import os
class EnvField:
    def __init__(self, default):
        self.default = default
    def get(self):
        return os.getenv(self.name)
class EnvBool(EnvField): ...
class EnvInt(EnvField): ...
class Envs:
    SGLANG_ORACLE = EnvBool(False)
    SGLANG_PORT = EnvInt(30000, deprecated_name="SGL_PORT")
envs = Envs()
def _translate():
    os.environ.pop("SGLANG_GONE")
"""
ONE_CLASS = HEAD + "class ServerArgs:" + FIELDS + ADD
SEVERAL = HEAD + "class Model:" + FIELDS + "_INPUT_NAMESPACES = [Model]\nclass ServerArgs:" + ADD


def _read(folder: Path, arguments: str) -> dict[str, Any]:
    members = {
        "sglang/srt/server_args.py": arguments,
        "sglang/srt/environ.py": ENVIRON,
        "sglang/srt/other.py": 'PORT = "SGLANG_ELSEWHERE"',
    }
    return read_sglang(Program([open_wheel(fake_wheel(folder, "sglang", "9.9.9", members))]))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read a small SGLang once."""
    return _read(tmp_path_factory.mktemp("wheel"), ONE_CLASS)


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--model-path", {"flags": ["--model-path", "--model"], "required": True}),
        ("--tensor-parallel-size", {"dest": "tp_size", "type": "int", "default": 1}),
        ("--trust-remote-code", {"type": "bool", "nargs": 0}),
        ("--kv-cache-dtype", {"choices": ["auto", "fp8_e4m3"]}),
        ("--mode", {"choices": ["decode", "null"]}),
        ("--hosts", {"nargs": "+", "type": "str"}),
        ("--ratio", {"type": "float"}),
    ],
)
def test_the_annotation_of_a_field_decides_the_flag(
    found: dict[str, Any], flag: str, expected: dict[str, Any]
) -> None:
    """SGLang declares a flag by annotating a field."""
    entry = by_flag(found["flags"])[flag]
    assert {key: entry[key] for key in expected} == expected


def test_a_field_without_help_has_no_flag(found: dict[str, Any]) -> None:
    """Only what is annotated is declared."""
    assert "--inner" not in by_flag(found["flags"])


def test_a_flag_by_hand_takes_what_nothing_in_the_environment_adds(found: dict[str, Any]) -> None:
    """A table is for an engine without special variables set."""
    entry = by_flag(found["flags"])["--sampling"]
    assert (entry["choices"], entry["default"]) == (["flashinfer"], "auto")


def test_fields_in_several_classes_give_the_same_flags(
    tmp_path: Path, found: dict[str, Any]
) -> None:
    """From 0.5.21 on the fields stand in classes by subject."""
    assert _read(tmp_path, SEVERAL)["flags"] == found["flags"]


def test_variables_keep_their_old_names(found: dict[str, Any]) -> None:
    """An old name still works and is worth a warning; SGLang ignores unknown ones silently."""
    assert {variable["name"]: variable.get("replacement") for variable in found["env"]} == {
        "SGLANG_ORACLE": None,
        "SGLANG_PORT": None,
        "SGL_PORT": "SGLANG_PORT",
        "SGLANG_GONE": None,
    }


def test_variables_outside_the_class_are_listed_apart(found: dict[str, Any]) -> None:
    """They are read, so they must not be called unknown."""
    assert found["env_elsewhere"] == ["SGLANG_ELSEWHERE"]
