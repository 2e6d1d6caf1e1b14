"""Flags that are looked up in a command line, by whatever name they were given."""

from __future__ import annotations

import shlex

import pytest

from fleet.given_flags import GivenFlags, given_flags


def given(line: str, program: str = "vllm", engine: str | None = "0.33.0") -> GivenFlags:
    return given_flags(program, tuple(shlex.split(line)), engine, None)


@pytest.mark.parametrize(
    "line",
    [
        "K3 --tensor-parallel-size 8",
        "K3 --tensor-parallel-size=8",
        "K3 --tensor_parallel_size 8",
        "K3 -tp 8",
        "K3 --tensor-par 8",
        "K3 -tp 4 --tensor-parallel-size 8",
    ],
)
def test_a_flag_is_found_by_all_its_names(line: str) -> None:
    """A rule that knew one name only would miss what most command lines write."""
    assert given(line).number("--tensor-parallel-size", default=1) == 8


def test_a_default_stands_for_a_flag_that_is_not_given_only() -> None:
    """What only the running pod knows is not the default."""
    assert given("K3").number("-tp", default=1) == 1
    assert given("K3 -tp $TP").number("-tp", default=1) is None
    assert given("K3 -tp eight").number("-tp", default=1) is None


def test_a_switch_that_is_switched_off_is_not_given() -> None:
    """It can be asked for by the name that switches it off."""
    found = given("K3 --no-enable-prefix-caching")
    assert not found.has("--enable-prefix-caching")
    assert found.has("--no-enable-prefix-caching")


def test_a_switch_takes_no_word_that_follows() -> None:
    """Only the table knows which flags have values."""
    found = given("--enforce-eager K3 --seed 1")
    assert (found.has("--enforce-eager"), found.text("--enforce-eager")) == (True, None)


def test_keys_come_from_json_and_one_by_one() -> None:
    """vLLM takes both on one line; the later one wins."""
    line = """K3 --speculative-config '{"method": "mtp", "model": "m"}' -sc.method dspark"""
    assert given(line).keys("--speculative-config") == {"method": "dspark", "model": "m"}


@pytest.mark.parametrize("value", ["{", "[1]", "null", "$CONFIG", "[" * 100_000, "{" * 100_000])
def test_a_value_that_is_no_object_has_no_keys(value: str) -> None:
    """The flag rules say what is wrong with it."""
    assert given_flags("vllm", ("--speculative-config", value), None, None).keys("-sc") == {}


@pytest.mark.parametrize(
    ("line", "hides"),
    [
        ("$MODEL --seed 1", False),  # the model
        ("K3 $MORE --seed 1", True),
        ("K3 --seed $SEED", False),
        ("K3 --enforce-eager $MORE", True),
        ("K3 --${FLAG} 1", True),
    ],
)
def test_a_variable_that_stands_alone_may_hide_flags(line: str, hides: bool) -> None:
    """Then what is missing may be inside it."""
    assert given(line).hides_more is hides


def test_without_a_table_a_flag_is_what_looks_like_one() -> None:
    """TensorRT-LLM has none, and its rules look for flags, too."""
    found = given("K3 --config a.yaml --no-such", "trtllm", None)
    assert (found.text("--config"), found.has("--no-such"), found.has("--other")) == (
        "a.yaml",
        True,
        False,
    )


def test_a_flag_that_the_version_lost_is_found_by_its_text() -> None:
    """That it is gone is another rule's finding."""
    found = given("--mamba-scheduler-strategy extra_buffer", "sglang", "0.5.23")
    assert found.text("--mamba-scheduler-strategy") == "extra_buffer"
