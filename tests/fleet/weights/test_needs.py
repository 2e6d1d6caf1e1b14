"""Which weights releases need, and which may go."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fleet.load import load_model, load_release
from fleet.weights.needs import WeightSet, judge_revisions, needed_by

MODEL = load_model("kimi-k3", beside=Path())
PLAIN = load_release("vllm-tp8-dcp8", beside=Path())
DRAFTING = load_release("vllm-tp8-dcp8-dspark", beside=Path())
REVISIONS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**12))


def test_a_release_needs_its_draft_as_well() -> None:
    """An engine that speculates does not start without it."""
    needed = needed_by(MODEL, {"plain": PLAIN, "drafting": DRAFTING})
    assert {weights.repo: names for weights, names in needed.items()} == {
        MODEL.repo: ("plain", "drafting"),
        "Inferact/Kimi-K3-DSpark": ("drafting",),
    }


@given(REVISIONS, st.dictionaries(st.sampled_from("abcdefgh"), st.just(("release",))))
def test_what_a_release_needs_never_goes(
    found: dict[str, int], needed: dict[str, tuple[str, ...]]
) -> None:
    """Whatever else is there, and whoever needs what is not."""
    sets = {WeightSet(repo="r", revision=revision): names for revision, names in needed.items()}
    judged = {kept.revision: kept for kept in judge_revisions(found, sets)}
    assert judged.keys() == found.keys()
    for revision, kept in judged.items():
        assert bool(kept.needed_by) == (revision in needed)
        assert kept.bytes == found[revision]
