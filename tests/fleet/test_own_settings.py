"""What a release may not say, because k3fleet says it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import load_release
from fleet.presets import preset_names

WriteFile = Callable[..., Path]


def _problems(write_file: WriteFile, text: str, base: str = "vllm-tp8") -> list[str]:
    path = write_file(f"extends: {base}\nname: q\n{text}\n", name="mine.yaml")
    try:
        load_release("./mine.yaml", beside=path)
    except ConfigError as error:
        return [str(item).replace(f"{path.parent}/", "") for item in error.problems]
    return []


@pytest.mark.parametrize(
    ("base", "args", "said"),
    [
        ("vllm-tp8", "[-tp, '4']", "--tensor-parallel-size (-tp)"),
        ("vllm-tp8", "[-tp=4]", "--tensor-parallel-size (-tp)"),
        ("vllm-tp8", "[--tensor-parallel=4]", "--tensor-parallel-size (--tensor-parallel)"),
        ("vllm-tp8", "[--speculative_config.method=x]", "--speculative-config"),
        ("sglang-tp8", "[--tp=4]", "--tp-size (--tp)"),
        ("sglang-tp8", "[--tensor-parallel-size=4]", "--tp-size (--tensor-parallel-size)"),
        ("vllm-tp8", "[--namespace, other]", "--namespace"),
        ("vllm-tp8", "[--endpoint=dyn://a.b.c]", "--endpoint"),
        ("vllm-tp8", "[--discovery-backend=etcd]", "--discovery-backend"),
        ("sglang-tp8", "[--request-plane=nats]", "--request-plane"),
        ("sglang-tp8", "[--event-plane=nats]", "--event-plane"),
        ("vllm-tp8", "[-n, '3']", "--nnodes (-n)"),
    ],
)
def test_no_spelling_of_an_owned_flag_gets_through(
    write_file: WriteFile, base: str, args: str, said: str
) -> None:
    """The parsers of the engines know short names, prefixes and aliases."""
    (problem,) = _problems(write_file, f"args: {args}", base)
    assert f": args repeat what typed fields decide: {said}" in problem
    assert problem.startswith("mine.yaml:3: args[")


@pytest.mark.parametrize("job", ["prefill", "decode"])
def test_a_pools_own_arguments_are_looked_at(write_file: WriteFile, job: str) -> None:
    """They are added to the release's."""
    text = f"disaggregation: {{{job}: {{args: [-tp=4], env: {{POD_IP: x}}}}}}"
    found = _problems(write_file, text, "vllm-pd-2p1d")
    assert [item.partition("[")[0].partition(": POD_IP")[0] for item in found] == [
        f"mine.yaml:3: disaggregation.{job}.env.POD_IP",
        f"mine.yaml:3: disaggregation.{job}.args",
    ]


def test_other_flags_are_let_through(write_file: WriteFile) -> None:
    """A flag that no field decides is what `args` is for."""
    text = "args: [--tokenizer-mode=auto, --max-logprobs, '5', --long-prefill-token-threshold=7]"
    assert _problems(write_file, text) == []


@pytest.mark.parametrize(
    "name", ["POD_IP", "DYN_NAMESPACE", "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX", "HF_HUB_OFFLINE"]
)
def test_our_variables_are_ours(write_file: WriteFile, name: str) -> None:
    """Another leader's address, and the ranks never meet."""
    assert _problems(write_file, f"env:\n  {name}: x") == [
        f"mine.yaml:4: env.{name}: {name} is set by k3fleet. Remove it from the release."
    ]


@pytest.mark.parametrize("name", ["A=B", "A B", "1A", "é", "$(A)", "a/b"])
def test_a_variable_has_a_name_that_the_api_server_takes(write_file: WriteFile, name: str) -> None:
    """It would refuse the pod, and only the pod."""
    (problem,) = _problems(write_file, f"env: {{{name!r}: x}}")
    assert "is no name of a variable" in problem


@pytest.mark.parametrize("revision", ["../x", "a/b", "-x", "$(A)", ".."])
def test_a_revision_names_a_folder(write_file: WriteFile, revision: str) -> None:
    """It becomes part of a path on every node."""
    (problem,) = _problems(write_file, f"weights: {{revision: {revision!r}}}")
    assert problem.startswith(f"mine.yaml:3: weights.revision: {revision!r} cannot name a folder")


@pytest.mark.parametrize("preset", preset_names("release"))
def test_presets_keep_to_it(write_file: WriteFile, preset: str) -> None:
    """What comes with k3fleet is the example that others copy."""
    load_release(preset, beside=Path())
