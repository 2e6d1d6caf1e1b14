"""New replicas are asked, and their traffic is watched, until it is clear whether they are well."""

from __future__ import annotations

import pytest
from rollout_site import FIRST, REGION, Rig, change, roll

from fleet.rollout.answers import Asked
from fleet.rollout.counters import Counts, FirstTokens, PromptTokens, ReplicaCounts
from infra.rollout.driver import Result


def test_a_silent_replica_leaves_routing_at_once(rig: Rig) -> None:
    """Requests would hang in it while people decide."""
    rig.region.mute = {FIRST}
    result = rig.do("smoke")
    assert result.outcome == "failed"
    assert result.why.endswith("taken out of routing")
    assert not rig.region.leaders()[0].routed


def test_gates_wait_for_enough_requests(rig: Rig) -> None:
    """And name what nobody could measure."""
    rig.region.counted = Counts(requests=1000, errors=900)  # before this step
    rig.at(5.0, lambda: setattr(rig.region, "counted", Counts(requests=1009, errors=900)))
    rig.at(9.0, lambda: setattr(rig.region, "counted", Counts(requests=1010, errors=901)))
    result = rig.do("gates")
    assert (result.outcome, rig.now_s) == ("ok", 10.0)
    assert "1 errors in 10 requests" in result.why
    assert "max_ttft_ratio: not measured" in result.why or "not judged" in result.why


def test_enough_answers_of_the_new_replicas_close_a_window_soon(rig: Rig) -> None:
    """Nothing is left to wait for; then it is looked at as seldom as ever."""
    rig.region.new = {"new": times(0.5, 100)}
    rig.at(0.2, lambda: rig.region.new.update(new=times(0.5, 1100)))
    rig.at(0.4, lambda: setattr(rig.region, "counted", Counts(requests=2000)))
    result = rig.do("gates")
    assert (result.outcome, rig.now_s) == ("ok", 0.5)
    began_s, readings = rig.now_s, rig.region.readings
    rig.at(began_s + 9.0, lambda: setattr(rig.region, "counted", Counts(requests=4000)))
    rig.at(began_s + 9.0, lambda: rig.region.new.update(new=times(0.5, 2100)))
    assert (rig.do("gates").outcome, rig.now_s - began_s) == ("ok", 10.0)
    assert rig.region.readings - readings == 1 + 8  # at 0.25, 0.5, 1, 2, 4, 6, 8 and 10 s


def test_a_window_without_answers_of_the_new_replicas_is_never_short(rig: Rig) -> None:
    """Where engines count nothing, traffic of the others would close it at once."""
    rig.at(0.2, lambda: setattr(rig.region, "counted", Counts(requests=2000)))
    assert (rig.do("gates").outcome, rig.now_s) == ("ok", 2.0)


def test_gates_without_traffic_are_inconclusive(rig: Rig) -> None:
    """Nobody knows; that is neither good nor bad."""
    result = rig.do("gates")
    assert (result.outcome, rig.now_s) == ("inconclusive", 60.0)
    assert "0 of 10 requests" in result.why


def test_broken_gates_do_not_wait_for_the_rest(rig: Rig) -> None:
    """Two errors are more than a tenth of ten, whatever comes."""
    rig.at(4.0, lambda: setattr(rig.region, "counted", Counts(requests=3, errors=2)))
    result = rig.do("gates")
    assert (result.outcome, rig.now_s) == ("failed", 4.0)
    assert "max_error_rate: 2 errors in 3 requests" in result.why
    assert not rig.region.leaders()[0].routed


def test_the_way_back_waits_for_no_traffic(rig: Rig) -> None:
    """A broken release keeps it away."""
    assert rig.do("gates", back=True) == Result("ok", f"{REGION}: not judged on the way back")


def times(mean_s: float, answers: int) -> ReplicaCounts:
    seconds = mean_s * answers
    return ReplicaCounts(
        first_tokens=FirstTokens(answers=answers, seconds=seconds, buckets={10.0: answers})
    )


def traffic(rig: Rig, at_s: float, mean_s: float, answers: int = 1000) -> None:
    """Let requests have come by then, those of the new replica with this time to a first token."""

    def come() -> None:
        rig.region.counted = Counts(requests=2.0 * answers)
        rig.region.new = {"new": times(mean_s, answers)}
        rig.region.old = {"old": times(0.5, answers)}

    rig.at(at_s, come)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Asked(answers=5, leaks=("r: tool: <|sep|>",)), "max_marker_leaks: 1 of 5 answers"),
        (Asked(answers=5, empties=("r: plain",)), "max_empty_answers: 1 of 5 answers"),
    ],
)
@pytest.mark.parametrize("phase", ["smoke", "gates"])
def test_one_leak_is_enough_though_the_next_try_is_well(
    rig: Rig, phase: str, asked: Asked, why: str
) -> None:
    """A parser that is wrong now and then is wrong; and the replica leaves routing at once."""
    rig.region.answers = [asked, Asked(answers=5)]
    rig.at(1.0, lambda: setattr(rig.region, "counted", Counts(requests=100)))
    result = rig.do(phase)  # type: ignore[arg-type]
    assert result.outcome == "failed"
    assert why in result.why
    assert not rig.region.leaders()[0].routed


def test_a_wrong_answer_is_asked_for_once_more(rig: Rig) -> None:
    """Models draw lots; garbage does not come right."""
    rig.region.answers = [Asked(answers=5, wrong=("r: plain: does not say 42",)), Asked(answers=5)]
    assert rig.do("smoke").outcome == "ok"
    rig.region.answers = [Asked(answers=5, wrong=("r: plain: does not say 42",))]
    result = rig.do("smoke")
    assert result.outcome == "failed"
    assert "r: plain: does not say 42, in 3 rounds of our own questions" in result.why
    assert rig.region.probes == 5


def test_on_the_way_back_only_silence_counts(rig: Rig) -> None:
    """A leak of long standing must not keep a broken release in place."""
    rig.region.answers = [Asked(answers=5, leaks=("r: plain: <|sep|>",))]
    assert rig.do("smoke", back=True) == Result("ok")
    assert rig.region.probes == 0


def test_another_model_card_keeps_a_replica_out(rig: Rig) -> None:
    """The router would count it, and send it nothing, or its sessions to two kinds of cache."""
    roll(rig, rig.started.new)
    rig.region.card = {FIRST: {"kv_cache_block_size": 64}}
    result = rig.do("registered")
    assert result.outcome == "failed"
    assert f"{FIRST}: its model card differs from that of" in result.why
    assert "kv_cache_block_size is 64, not None" in result.why
    assert not rig.region.leaders()[0].routed


def test_a_slow_release_is_looked_at_in_a_new_window_until_its_cache_is_full(rig: Rig) -> None:
    """The first window is slow, the second is not: that was the empty cache."""
    traffic(rig, 1.0, 2.0)
    rig.at(20.0, lambda: setattr(rig.region, "counted", Counts(requests=4000)))
    both = FirstTokens(answers=2000, seconds=2500.0, buckets={10.0: 2000})
    rig.at(20.0, lambda: rig.region.new.update(new=ReplicaCounts(first_tokens=both)))
    rig.at(20.0, lambda: rig.region.old.update(old=times(0.5, 2000)))
    result = rig.do("gates")
    assert result.outcome == "ok", result.why
    assert "max_ttft_ratio: 1.00 (0.500 s over 1000 answers" in result.why


def test_a_release_that_stays_slow_has_failed(rig: Rig) -> None:
    """Once an empty cache is no reason any more; here at the first look after it."""
    gates = rig.started.gates["canary"].model_copy(update={"hit_recovery_s": 0.0})
    rig.started = rig.started.model_copy(update={"gates": {"canary": gates}})
    traffic(rig, 1.0, 2.0)
    result = rig.do("gates")
    assert result.outcome == "failed"
    assert "max_ttft_ratio: 4.00 (2.000 s over 1000 answers, others 0.500 s" in result.why


def test_the_dip_of_the_region_is_against_what_was_before(rig: Rig) -> None:
    """Its frontends' whole life until the phase began."""
    usual = Counts(requests=900, tokens=PromptTokens(prompt=2_000_000, cached=1_800_000))
    rig.region.counted = usual
    after = Counts(requests=1000, tokens=PromptTokens(prompt=4_000_000, cached=2_400_000))
    rig.at(1.0, lambda: setattr(rig.region, "counted", after))
    result = rig.do("gates")
    assert result.outcome == "failed"
    assert "max_hit_dip of the region: +0.600 (0.300 against 0.900, in 2 s)" in result.why


def test_weights_have_to_be_there_before_a_replica_is_taken_away(rig: Rig) -> None:
    """It would wait for them with its rack's capacity gone."""
    rig.region.stack.weights = {"weights.k3fleet.io/abc": "ready"}
    rig.region.nodes = {
        f"node-{FIRST}-a": {"weights.k3fleet.io/abc": "ready"},
        f"node-{FIRST}-b": {},
    }
    result = rig.do("preflight")
    assert result.outcome == "inconclusive"
    assert f"are not whole: node node-{FIRST}-b does not have abc" in result.why
    rig.region.nodes[f"node-{FIRST}-b"] = {"weights.k3fleet.io/abc": "ready"}
    change(rig)
    assert rig.do("preflight") == Result("ok")
