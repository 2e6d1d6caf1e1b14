"""Command lines, however an image wraps its engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from infra.lint.commands import Command, commands
from infra.lint.manifest import Manifest
from infra.lint.pods import workloads


def started(**container: Any) -> list[Command]:
    """Read the commands of a pod with one container."""
    spec = {"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.29.0", **container}]}
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    (workload,) = workloads(Manifest(file="x.yaml", data=data))
    return [
        command
        for template in workload.templates
        for part in template.containers()
        for command in commands(part)
    ]


def script(text: str, env: Mapping[str, str] | None = None) -> Command:
    """Read the one engine that a shell script starts."""
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    (found,) = started(command=["/bin/sh", "-c"], args=[text], env=variables)
    return found


def test_command_and_args_are_one_list():
    """Kubernetes joins them; where one ends is a matter of taste."""
    (found,) = started(command=["python3", "-m", "dynamo.vllm"], args=["--model", "/weights"])
    assert (found.program, found.texts) == ("dynamo.vllm", ("--model", "/weights"))


def test_a_word_knows_its_place():
    """A finding must point at the line of the one argument that is wrong."""
    (found,) = started(command=["vllm"], args=["serve", "K3", "--block-size=16"])
    word = found.find("--block-size")
    assert word is not None
    assert (word.text, word.path) == ("16", ("spec", "containers", 0, "args", 2))


def test_a_script_is_read_as_its_shell_would():
    """Continuation lines, quotes and comments are in most public recipes."""
    found = script(
        "# don't start twice\n"
        "set -eu  # and don't go on\n"
        "exec python3 -m dynamo.vllm \\\n"
        "  --model K3 \\\n"
        """  --attention-config '{"mla_prefill_backend": "FLASHINFER"}'\n"""
    )
    assert found.texts == (
        "--model",
        "K3",
        "--attention-config",
        '{"mla_prefill_backend": "FLASHINFER"}',
    )


def test_a_hash_inside_a_word_is_no_comment():
    """Model names and URLs may hold one."""
    assert script("vllm serve a#b --seed 1").texts == ("a#b", "--seed", "1")


def test_what_runs_before_the_engine_is_not_part_of_it():
    """Scripts prepare things first."""
    found = script("mkdir -p /x && vllm serve K3; echo --seed 1")
    assert found.texts == ("K3",)


@pytest.mark.parametrize("reference", ["$MODEL_ID", "${MODEL_ID}", "$(MODEL_ID)"])
def test_a_variable_that_the_container_states_is_filled_in(reference: str):
    """Recipes keep the model's name in a variable, which says nothing less certain."""
    assert script(f"vllm serve {reference}", {"MODEL_ID": "K3"}).texts == ("K3",)


def test_a_variable_of_the_running_pod_stays_open():
    """Nobody can judge a rank that the operator fills in later."""
    found = script("vllm serve K3 --node-rank $LWS_WORKER_INDEX").find("--node-rank")
    assert found is not None
    assert found.is_open


def test_the_last_of_two_values_counts():
    """That is what argparse does."""
    (found,) = started(command=["vllm", "serve", "--seed", "1", "--seed=2"])
    assert found.value("--seed") == "2"


def test_a_flag_without_a_value_is_there_all_the_same():
    """Switches have no value; the next flag is not theirs."""
    (found,) = started(command=["vllm", "serve", "--headless", "--seed", "1"])
    assert (found.value("--headless"), found.has("--headless"), found.has("--nope")) == (
        "",
        True,
        False,
    )


def test_a_negative_number_is_a_value():
    """`-1` switches many limits off."""
    (found,) = started(command=["vllm", "serve", "--mamba-max-states-per-path", "-1"])
    assert found.value("--mamba-max-states-per-path") == "-1"


@pytest.mark.parametrize(
    "container",
    [
        {"command": "not a list"},
        {"command": [None, {"a": 1}, ["x"]]},
        {"command": ["sh", "-c"]},
        {"command": ["sh", "-c", "exec 'never closed"]},
        {"command": ["sleep", "1"]},
        {"args": 7},
    ],
)
def test_what_starts_no_engine_gives_no_command(container: dict[str, Any]):
    """Other people's manifests hold anything."""
    assert started(**container) == []


@pytest.mark.parametrize(
    ("image", "engine", "dynamo"),
    [
        ("vllm/vllm-openai:v0.29.0", "0.29.0", None),
        (f"docker.io/vllm/vllm-openai:v0.29.0@sha256:{'0' * 64}", "0.29.0", None),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1", "0.31.0", "1.6.1"),
        ("nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.6.1-cuda13", "0.5.21", "1.6.1"),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.4.0-kimi-k3-dev.1", None, None),
        ("vllm/vllm-openai:kimi-k3", None, None),
        ("registry:5000/team/own:v0.29.0", None, None),
        ("", None, None),
    ],
)
def test_versions_are_read_off_released_images_only(
    image: str, engine: str | None, dynamo: str | None
):
    """A development build has flags that no release has: nothing is claimed about it."""
    (found,) = started(image=image, command=["python3", "-m", "dynamo.vllm"])
    assert found.versions == (engine, dynamo)
