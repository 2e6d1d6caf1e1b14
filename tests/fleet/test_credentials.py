"""What must never be in a release, and what only reads like it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fleet.credentials import credential_shape, names_credential
from fleet.errors import ConfigError
from fleet.flag_table import tables
from fleet.load import load_release

WriteFile = Callable[..., Path]
DIGEST = "sha256:" + "0123456789abcdef" * 4
HOUSE = f"""\
extends: vllm-tp8
name: house
args: []
engine:
  kind: custom
  image: "r/x:1@{DIGEST}"
  custom:
    registers: nothing
    command: COMMAND
"""
CASES = yaml.safe_load((Path(__file__).parents[1] / "cases/credential_names.yaml").read_text())
VALUES = [
    "hf_abcdefghijklmnopqrst",
    "sk-live-abcdef123456",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_0123456789abcdefghij",
    "http://user:pass@proxy.example:3128",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "Bearer abcdef123456",
]


@pytest.mark.parametrize("name", CASES["credentials"])
def test_a_name_of_a_credential_is_seen(name: str) -> None:
    """In every spelling that people use."""
    assert names_credential(name)


@pytest.mark.parametrize("name", CASES["others"])
def test_other_names_are_let_through(name: str) -> None:
    """A refusal without reason teaches people to look for a way around."""
    assert not names_credential(name)


def test_of_all_known_settings_only_credentials_are_refused() -> None:
    """Engines have thousands of settings, many of them about tokens and keys of caches."""
    names: set[str] = set()
    for engine in ("vllm", "sglang", "dynamo"):
        for table in tables(engine):
            names |= {*table.variables, *table.elsewhere}
            for known in (*table.parsers.values(), *table.configs.values()):
                names |= set(known)
    assert sorted(filter(names_credential, names)) == sorted(CASES["of_engines"])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("place", ["env: {LINK: %s}", "args: [--link, %s]"])
def test_a_value_that_looks_like_one_is_refused_and_not_shown(
    write_file: WriteFile, place: str, value: str
) -> None:
    """Whatever its name is; the message goes into logs."""
    written = '"' + value.replace("\n", "\\n") + '"'
    path = write_file(f"extends: vllm-tp8\nname: q\n{place % written}\n", name="mine.yaml")
    with pytest.raises(ConfigError) as caught:
        load_release("./mine.yaml", beside=path)
    (problem,) = caught.value.problems
    assert problem.line == 3
    assert problem.what.startswith("the value looks like a")
    assert value not in str(problem)


@pytest.mark.parametrize(
    "value",
    ["expandable_segments:True", "hf_transfer", "http://proxy.example:3128/a@b", "task-force-hunt"],
)
def test_plain_values_are_let_through(value: str) -> None:
    """Shapes are narrow."""
    assert credential_shape(value) is None


@pytest.mark.parametrize(
    ("command", "path", "what"),
    [
        ("[serve, --api-key, x]", "command[1]", "'--api-key' looks like a credential"),
        ("[serve, --hf-token=hf_A]", "command[1]", "'--hf-token' looks like a credential"),
        (
            "[sh, -c, 'export HF_TOKEN=x; exec serve']",
            "command[2]",
            "'HF_TOKEN' looks like a credential",
        ),
        ("[serve, sk-live-abcdef123456]", "command[1]", "the value looks like an API key"),
    ],
)
def test_a_house_engines_command_holds_none(
    write_file: WriteFile, command: str, path: str, what: str
) -> None:
    """`ps` shows a command to everybody on the node."""
    file = write_file(HOUSE.replace("COMMAND", command), name="mine.yaml")
    with pytest.raises(ConfigError) as caught:
        load_release("./mine.yaml", beside=file)
    found = [(item.path, item.what) for item in caught.value.problems]
    assert found == [(f"engine.custom.{path}", what)]
