"""The configuration of a stack."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
import yaml

from fleet.errors import ConfigError
from infra.options import Layer, Options
from infra.settings import OPTION_KEYS, REQUIRED_KEYS, Settings, from_config, to_config
from infra.stack_files import PROGRAMS


class Stack:
    """A stack file as `pulumi.Config` shows it: everything is text."""

    def __init__(self, values: dict[str, object]) -> None:
        self._texts = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in values.items()
        }

    def get(self, key: str) -> str | None:
        return self._texts.get(key)

    def get_bool(self, key: str) -> bool | None:
        return None if key not in self._texts else self._texts[key] == "true"

    def get_int(self, key: str) -> int | None:
        return None if key not in self._texts else int(self._texts[key])

    def get_object(self, key: str) -> object:
        return None if key not in self._texts else json.loads(self._texts[key])


REQUIRED = {"fleet": "/f.yaml", "region": "us-east", "kubeconfig": "/k"}


def test_what_the_runner_writes_is_what_the_program_reads() -> None:
    """Both sides of a stack file must mean the same."""
    options = Options(
        dra=False,
        namespace="k3-east",
        gateway_listen="127.0.0.9",
        gateway_port=8081,
        gateway_addresses={"us-west": "127.0.0.8:8080"},
        gateway_root="root",
        gateway_admin_port=0,
        dns_server="127.0.0.1:53",
        tokenizer="fastokens",
        weights_claim="weights",
        assignment={"use1-r01-0": "other"},
        serial=7,
    )
    settings = Settings(
        fleet=Path("/f.yaml"), region="us-east", kubeconfig=Path("/k"), options=options
    )
    assert from_config(Stack(to_config(settings))) == settings


def test_defaults_are_not_written() -> None:
    """A default that changes later must reach stacks that never chose it."""
    settings = Settings(fleet=Path("/f.yaml"), region="us-east", kubeconfig=Path("/k"))
    assert to_config(settings) == REQUIRED


def test_every_option_can_be_set_in_a_stack() -> None:
    """An option that the table forgets works in Python and is lost in Pulumi."""
    names = {field.name for field in fields(Options)} - {"releases"}
    assert {name for name, _ in OPTION_KEYS.values()} == names


def test_named_releases_are_loaded() -> None:
    """An assignment names releases by id; the stack says where they are."""
    settings = from_config(Stack({**REQUIRED, "releases": ["sglang-tp8-dcp8"]}))
    assert [item.name for item in settings.options.releases.values()] == ["sglang-tp8-dcp8"]


@pytest.mark.parametrize("key", REQUIRED_KEYS)
def test_a_missing_key_says_how_to_set_it(key: str) -> None:
    """By hand, the first `pulumi up` usually has none of them."""
    rest = {name: value for name, value in REQUIRED.items() if name != key}
    with pytest.raises(ConfigError, match=f"pulumi config set {key} VALUE"):
        from_config(Stack(dict(rest)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tokenizer", "default", "Use one of: basetenkenizer, fastokens"),
        ("weightsDir", "/var/lib/kubelet", "belongs to the node's system"),
        ("assignment", ["x"], "assignment: expected `name: text` lines"),
        ("gatewayAddresses", {"us-west": 8080}, "gatewayAddresses: expected `name: text` lines"),
        ("releases", "x.yaml", "expected a list"),
    ],
)
def test_a_wrong_value_is_refused(key: str, value: object, message: str) -> None:
    """Pulumi checks none of these types."""
    config = Stack({**REQUIRED, key: json.dumps(value) if key == "releases" else value})
    with pytest.raises(ConfigError, match=message):
        from_config(config)


@pytest.mark.parametrize("layer", get_args(Layer))
def test_the_project_file_asks_for_what_the_program_needs(layer: Layer) -> None:
    """Pulumi then says what is missing before it starts the program."""
    project = yaml.safe_load((PROGRAMS / layer / "Pulumi.yaml").read_text())
    assert project["name"] == f"k3fleet-{layer}"
    assert list(project["config"]) == [f"k3fleet-{layer}:{key}" for key in REQUIRED_KEYS]
