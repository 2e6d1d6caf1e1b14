"""Model cards: what keeps two workers apart though their releases look alike."""

from __future__ import annotations

import pytest

from infra.rollout.cards import cards_differ

CARD = {
    "display_name": "kimi-k3",
    "source_path": "/a",
    "tokenizer": {"hf_tokenizer_json": {"path": "http://a/t", "checksum": "blake3:1"}},
    "kv_cache_block_size": 128,
    "runtime_config": {"max_num_seqs": 256, "tool_call_parser": "kimi_k3", "runtime_data": {}},
}


def changed(**changes: object) -> dict[str, object]:
    return {**CARD, **changes}


def test_what_is_a_workers_own_does_not_count() -> None:
    """Each serves its files under its own address, and may take on more at once."""
    runtime = {"max_num_seqs": 48, "tool_call_parser": "kimi_k3", "runtime_data": {"x": 1}}
    tokenizer = {"hf_tokenizer_json": {"path": "http://b/t", "checksum": "blake3:1"}}
    other = changed(source_path="/b", tokenizer=tokenizer, runtime_config=runtime)
    assert cards_differ(CARD, other) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kv_cache_block_size": 64}, "kv_cache_block_size is 64, not 128"),
        (
            {"tokenizer": {"hf_tokenizer_json": {"checksum": "blake3:2"}}},
            "tokenizer.hf_tokenizer_json.checksum is 'blake3:2', not 'blake3:1'",
        ),
        (
            {"runtime_config": {"tool_call_parser": None}},
            "runtime_config.tool_call_parser is None, not 'kimi_k3'",
        ),
        ({"new_field": 1}, "new_field is 1, not None"),
    ],
)
def test_whatever_else_differs_is_named(change: dict[str, object], why: str) -> None:
    """Also a field that nobody here has heard of."""
    assert cards_differ(changed(**change), CARD) == why
