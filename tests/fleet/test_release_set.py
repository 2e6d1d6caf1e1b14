"""The set of a release: pure, and in one mind with what keeps two releases apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.load import load_release
from fleet.release import Release
from fleet.release_set import release_set
from fleet.rollout.mixing import mixing

OLD = load_release("vllm-tp8-dcp8", beside=Path("here"))
# Changes of either kind, by their path; the last of each pair is what the release has now.
CHANGES: dict[str, list[Any]] = {
    "name": ["b", OLD.name],
    "engine.version": ["0.30.0", OLD.engine.version],
    "weights.revision": ["other", OLD.weights.revision],
    "block_size": [32, OLD.block_size],
    "kv_dtype": ["bfloat16", OLD.kv_dtype],
    "frontend.tokenizer": ["fastokens", OLD.frontend.tokenizer],
    "frontend.tokenizer_cache_bytes": [7, OLD.frontend.tokenizer_cache_bytes],
    "args": [(*OLD.args, "--chat-template", "x.jinja"), OLD.args],
    "env": [{**OLD.env, "A": "b"}, OLD.env],
    "max_num_seqs": [7, OLD.max_num_seqs],
    "drain_s": [60.0, OLD.drain_s],
    "edge.retries": [1, OLD.edge.retries],
    "router.migration_limit": [1, OLD.router.migration_limit],
    "dynamo.version": ["1.7.0", OLD.dynamo.version],
    "dynamo.image": ["registry.example/other@sha256:" + "1" * 64, OLD.dynamo.image],
}


def changed(values: dict[str, Any]) -> Release:
    data = OLD.model_dump(by_alias=True)
    for path, value in values.items():
        *owners, last = path.split(".")
        part = data
        for owner in owners:
            part = part[owner]
        part[last] = value
    return Release.model_validate(data)


releases = st.builds(
    changed, st.fixed_dictionaries({path: st.sampled_from(v) for path, v in CHANGES.items()})
)


@given(one=releases, other=releases)
def test_two_releases_are_of_one_set_if_nothing_keeps_them_apart(
    one: Release, other: Release
) -> None:
    """Else the plan would speak of one router, and the charts render two; or the other way."""
    assert (release_set(one) == release_set(other)) == mixing(one, other).side_by_side


def test_a_set_does_not_change_its_name() -> None:
    """It is in the Dynamo namespace: a new name restarts every engine. Written down in July."""
    assert release_set(OLD) == "bc40bee9"


@pytest.mark.parametrize("path", ["speculation", "disaggregation"])
def test_what_is_left_out_counts_as_its_default(path: str) -> None:
    """A field that a new k3fleet brings, with a default, must not make another set of it."""
    data = OLD.model_dump(by_alias=True)
    assert data.pop(path) is None
    assert release_set(Release.model_validate(data)) == release_set(OLD)
