"""Numbers and names of a release and of hardware that nothing behind us would take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import load_hardware, load_release

WriteFile = Callable[..., Path]
DIGEST = "sha256:" + "0123456789abcdef" * 4
HARDWARE = """\
name: h
gpu_product: NVIDIA-GB300
arch: arm64
nodes_per_rack: 18
gpus_per_node: 4
gpu_memory_mib: 284208
"""


def _said(write_file: WriteFile, text: str) -> list[str]:
    path = write_file(f"extends: vllm-pd-2p1d\nname: q\n{text}\n", name="mine.yaml")
    with pytest.raises(ConfigError) as caught:
        load_release("./mine.yaml", beside=path)
    return [str(item).replace(f"{path.parent}/", "") for item in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "edge: {max_request_bytes: 0}",
            "edge.max_request_bytes: 0 is out of range. Give at least",
        ),
        ("edge: {max_request_bytes: 5GB}", "edge.max_request_bytes: '5GB' is out of range"),
        ("edge: {retries: 101}", "edge.retries: 101 is out of range. Give at most 100"),
        ("edge: {requests_per_minute: 4294967296}", "edge.requests_per_minute: 4294967296 is out"),
        ("edge: {session_header: 'x y'}", "edge.session_header: 'x y' is no name of a header"),
        ("edge: {session_header: ':path'}", "edge.session_header: ':path' is no name"),
        ("edge: {session_header: x_session}", "edge.session_header: 'x_session' is no name"),
        ('edge: {session_header: "x\\nb"}', "edge.session_header: 'x\\nb' is no name"),
        ("drain_s: 0.0001", "drain_s: 0.0001 is out of range. Give at least 1"),
        ("router: {session_affinity_ttl: 10ms}", "router.session_affinity_ttl: '10ms' is out"),
        (
            "disaggregation: {prefill: {replicas: 99999999999999}}",
            "disaggregation.prefill.replicas: 99999999999999 is out of range. Give at most 72",
        ),
        ("engine: {image: 'A/B:1'}", "engine.image: 'A/B:1' is no reference of an image"),
        ("dynamo: {image: 'a b'}", "dynamo.image: 'a b' is no reference of an image"),
        ("dynamo: {image: 'https://a/b:1'}", "dynamo.image: 'https://a/b:1' is no reference"),
    ],
)
def test_what_nothing_behind_us_takes_is_refused_at_its_line(
    write_file: WriteFile, text: str, said: str
) -> None:
    """Envoy counts to 2^32 and takes 0 for no limit; the API server checks the rest."""
    (problem,) = _said(write_file, text)
    assert problem.startswith(f"mine.yaml:3: {said}")


def test_a_password_in_an_image_is_not_repeated(write_file: WriteFile) -> None:
    """The message goes into logs."""
    (problem,) = _said(write_file, "dynamo: {image: 'https://me:hunter2@registry.example/a:1'}")
    assert problem.startswith("mine.yaml:3: dynamo.image: the image names a user or a password.")
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "image",
    ["dynamo:1", "localhost:5000/a/b-c_d.e:1.0", f"r.example/a@{DIGEST}", "[::1]:5000/a:1", "a"],
)
def test_images_as_registries_name_them_are_taken(write_file: WriteFile, image: str) -> None:
    """Ports, addresses, tags and digests in any combination."""
    path = write_file(
        f"extends: vllm-tp8\nname: q\ndynamo: {{image: '{image}'}}\n", name="mine.yaml"
    )
    assert load_release("./mine.yaml", beside=path).dynamo.image == image


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("rack: 18", "rack: 999999999"), "nodes_per_rack"),
        (("node: 4", "node: 65"), "gpus_per_node"),
        (("mib: 284208", "mib: 99999999999"), "gpu_memory_mib"),
        (("NVIDIA-GB300", '"{{x}}"'), "gpu_product"),
        (("arm64", '"arm 64"'), "arch"),
    ],
)
def test_hardware_has_bounds(write_file: WriteFile, change: tuple[str, str], path: str) -> None:
    """A typing error must not become a plan of a million replicas, or a label of no node."""
    file = write_file(HARDWARE, name="h.yaml", change=change)
    with pytest.raises(ConfigError) as caught:
        load_hardware("./h.yaml", beside=file)
    assert [item.path for item in caught.value.problems] == [path]


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("{weights!z}", "command[1]: {weights} is used with a format or a conversion"),
        ("{weights!r}", "command[1]: {weights} is used with a format or a conversion"),
        ("{tensor:abc}", "command[1]: {tensor} is used with a format or a conversion"),
        ("{tensor:>999999999}", "command[1]: {tensor} is used with a format or a conversion"),
        ("{tensor:{port}}", "command[1]: {tensor} is used with a format or a conversion"),
        ("{weights.__class__}", "command[1]: {weights.__class__} is not known"),
        ("{weights[0]}", "command[1]: {weights[0]} is not known"),
        ("{}", "command[1]: {} is not known"),
        ("sk-live-abcdef }", "command[1]: Single '}' encountered in format string"),
    ],
)
def test_a_command_names_plain_words_only(write_file: WriteFile, word: str, what: str) -> None:
    """A format may be an error when it is rendered, or fill the memory."""
    custom = f"custom: {{registers: nothing, command: [serve, '{word}']}}"
    engine = f"engine: {{kind: custom, image: 'x:1@{DIGEST}', {custom}}}"
    (problem,) = _said(write_file, f"args: []\n{engine}")
    assert f"mine.yaml:4: engine.custom: {what}." in problem
    assert "sk-live" not in problem
