"""Which two releases one router may serve at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.load import load_release
from fleet.release import Release
from fleet.rollout.mixing import mixing

OLD = load_release("vllm-tp8-dcp8", beside=Path("here"))


def changed(path: str, value: object) -> Release:
    data = OLD.model_dump(by_alias=True)
    *owners, last = path.split(".")
    part = data
    for owner in owners:
        part = part[owner]
    part[last] = value
    return Release.model_validate(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("engine.version", "0.30.0"),
        ("weights.revision", "other"),
        ("block_size", 32),
        ("kv_dtype", "bfloat16"),
        ("state_dtype", "bfloat16"),
        ("frontend.tokenizer", "fastokens"),
        ("args", (*OLD.args, "--chat-template", "other.jinja")),
        ("env", {**OLD.env, "VLLM_KV_CACHE_LAYOUT": "HND"}),
        ("dynamo.version", "1.7.0"),
    ],
)
def test_what_decides_a_block_or_the_model_card_keeps_releases_apart(
    path: str, value: object
) -> None:
    """A block found by the same hash must hold the same bytes, or answers are silently wrong."""
    assert not mixing(OLD, changed(path, value)).side_by_side


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "other"),
        ("max_num_seqs", 64),
        ("max_batched_tokens", 4096),
        ("gpu_memory_utilization", 0.8),
        ("drain_s", 60.0),
        ("edge.retries", 1),
        ("router.migration_limit", 1),
    ],
)
def test_what_only_decides_how_much_fits_does_not(path: str, value: object) -> None:
    """Keeping them apart would split the region's cache for nothing."""
    assert mixing(OLD, changed(path, value)).side_by_side


def test_a_draft_model_does_not_change_the_cache_of_the_model() -> None:
    """What is drafted is verified: turning speculation on need not split a region."""
    dspark = load_release("vllm-tp8-dcp8-dspark", beside=Path("here"))
    data = OLD.model_dump(by_alias=True) | {"speculation": dspark.speculation}
    assert mixing(OLD, Release.model_validate(data)).side_by_side


def test_what_frontends_and_gateway_read_is_named() -> None:
    """They serve every replica of a region, so no canary can be had of them."""
    assert mixing(OLD, changed("edge.retries", 1)).region == ("edge.retries",)
    assert mixing(OLD, changed("max_num_seqs", 64)).region == ()
