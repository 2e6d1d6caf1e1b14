"""The whole plan of a rollout, and what it says to people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import load_fleet, load_release
from fleet.release import release_id
from fleet.rollout.fronting import POD_START_S
from fleet.rollout.plan import listed, plan_rollout, rollout_json
from fleet.rollout.strategy import Assumed, Strategy, load_strategy

DEMO = Path(__file__).parents[3] / "fleets/demo.yaml"
FLEET = load_fleet(DEMO)
NEW = load_release("vllm-tp8-dcp8-dspark", beside=DEMO)
# The field's example: drain 15 min, load 5, warm-up 7, one of nine at a time: 4.05 hours.
FIELD = Assumed(load_rate=-(-FLEET.model.weights_bytes // 2 // 300), warm_up=420.0)


def test_a_rack_takes_as_long_as_the_field_says() -> None:
    """9 x (15 + 5 + 7) minutes, and what we add to it is said apart."""
    plan = plan_rollout(FLEET, NEW, Strategy(assumed=FIELD), regions=["us-east"])
    field_s = sum(s.times.drain_s + s.times.load_s + s.times.warm_up_s for s in plan.steps)
    assert field_s == pytest.approx(4.05 * 3600, rel=1e-3)
    whole_s = sum(step.times.total_s for step in plan.steps) + sum(plan.soaks_s.values())
    assert plan.total_s == whole_s > field_s


def test_steps_start_when_those_before_them_have_ended() -> None:
    """The canary's soak is waited for before its rack goes on."""
    plan = plan_rollout(FLEET, NEW, Strategy())
    canary, second, third, *_ = plan.steps
    assert canary.starts_s == 0
    assert second.starts_s == canary.times.total_s + plan.soaks_s["canary"]
    assert third.starts_s == second.starts_s + second.times.total_s


def test_frontends_change_behind_the_replicas_of_their_region() -> None:
    """What is wrong with them costs a region, so they come last in it, before the next begins."""
    new = FLEET.release.model_copy(
        update={"name": "n", "edge": FLEET.release.edge.model_copy(update={"retries": 7})}
    )
    plan = plan_rollout(FLEET, new, Strategy())
    assert plan.mixing.region == ("edge.retries",)
    shared = [step for step in plan.steps if step.shared]
    assert [step.shared for step in shared] == ["us-east", "eu-west"]
    first, last = shared
    assert all("us-east" not in step.serving for step in plan.steps[first.number :])
    assert last.number == len(plan.steps)
    after = plan.steps[first.number]
    assert after.number == first.number + 1
    soak_s = plan.soaks_s[first.wave] if after.wave != first.wave else 0.0
    assert after.starts_s - first.starts_s == pytest.approx(first.times.total_s + soak_s)
    assert first.times.warm_up_s == FLEET.spec.frontends.replicas * POD_START_S
    assert (first.times.drain_s, first.times.load_s) == (0.0, 0.0)
    assert plan.total_s == pytest.approx(
        last.starts_s + last.times.total_s + plan.soaks_s[last.wave]
    )


def test_frontends_alone_can_be_left_to_change() -> None:
    """An aborted rollout had brought the replicas already."""
    edge = FLEET.release.edge.model_copy(update={"retries": 7})
    new = FLEET.release.model_copy(update={"name": "n", "edge": edge})
    replicas = [
        name for step in plan_rollout(FLEET, new, Strategy()).steps for name in step.replicas
    ]
    assigned = dict.fromkeys(replicas, release_id(new))
    following = {"us-east": new}
    plan = plan_rollout(FLEET, new, Strategy(), assigned=assigned, following=following)
    assert [(step.shared, step.wave) for step in plan.steps] == [("eu-west", "rest")]
    assert plan.soaks_s == {"rest": 300.0}


def test_the_sessions_of_one_replica_are_what_the_others_prefill() -> None:
    """267 sessions x 110K were 29 M tokens and 220 s of a rack's prefill in the public traces."""
    assumed = Assumed(sessions_per_replica=267)
    plan = plan_rollout(FLEET, NEW, Strategy(assumed=assumed))
    cost = plan.steps[0].costs["us-east"]
    assert cost.prefill_tokens == pytest.approx(29.4e6, rel=0.01)
    assert cost.prefill_s == pytest.approx(245, rel=0.01)  # eight stay; 218 s with all nine
    assert plan.steps[0].serving == {"us-east": (8, 9)}


def test_what_runs_the_release_already_is_not_moved() -> None:
    """A second rollout after an abort finishes the rest."""
    plan = plan_rollout(FLEET, FLEET.release, Strategy())
    assert (plan.steps, plan.unchanged) == ((), 18)
    done = {
        f"use1-r01-{slot}": rollout_json(plan_rollout(FLEET, NEW, Strategy()))["new"]
        for slot in range(9)
    }
    rest = plan_rollout(FLEET, NEW, Strategy(), assigned=done)  # type: ignore[arg-type]
    assert {name for step in rest.steps for name in step.replicas} == {
        f"euw1-r01-{slot}" for slot in range(9)
    }
    assert rest.unchanged == 9


def test_the_plan_is_plain_data() -> None:
    """`-o json` for pipelines."""
    data = json.loads(json.dumps(rollout_json(plan_rollout(FLEET, NEW, Strategy()))))
    assert len(data["steps"]) == 18
    assert data["steps"][0]["replicas"] == ["use1-r01-0"]


def test_an_unknown_region_is_refused_with_the_nearest() -> None:
    """A typing mistake must not become an empty rollout."""
    with pytest.raises(ConfigError, match=r"--region us-esat: unknown region\. Did you mean"):
        plan_rollout(FLEET, NEW, Strategy(), regions=["us-esat"])


def test_another_size_of_replica_is_refused() -> None:
    """Slots of two nodes cannot become slots of four, one by one."""
    other = load_release("vllm-tp16-gb200", beside=DEMO)
    with pytest.raises(ConfigError, match="another size"):
        plan_rollout(FLEET, other, Strategy())


def test_only_the_first_of_many_fields_are_read_out() -> None:
    """Two engines differ in 25 fields, and a terminal is 120 columns wide."""
    assert listed(("a", "b")) == "a, b"
    assert listed(tuple("abcdefg")) == "a, b, c, d, e and 2 more"


STRATEGY = """\
apiVersion: k3fleet/v1
waves:
  - scope: canary
    soak: 10m
    gates: {max_error_rate: 0.01}
  - scope: rest
at_once: {per_rack: 2, per_region: 2}
floor: {rack: 0.7, region: 0.7}
on_fail: roll-back
"""


def test_a_strategy_is_a_file(tmp_path: Path) -> None:
    """Teams keep it beside their fleet, in git."""
    path = tmp_path / "strategy.yaml"
    path.write_text(STRATEGY)
    plan = plan_rollout(FLEET, NEW, load_strategy(path), regions=["us-east"])
    assert [len(step.replicas) for step in plan.steps] == [1, 2, 2, 2, 2]
    assert plan.soaks_s == {"canary": 600, "rest": 300}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("scope: rest", "scope: rst"), "Did you mean 'rest'?"),
        (("scope: rest", "scope: canary-rack"), "so some replicas would never be updated"),
        (("scope: canary\n", "scope: rest\n"), "is not in order, or one comes twice"),
        (("floor:", "flor:"), "unknown key. Did you mean 'floor'?"),
        (("rack: 0.7", "rack: 1.7"), "floor.rack: 1.7 is out of range. Give at most 1"),
        (("soak: 10m", "soak: soon"), "'soon' is not a duration"),
        (("per_rack: 2", "per_rack: 0"), "at_once.per_rack: 0 is out of range. Give at least 1"),
    ],
)
def test_a_wrong_strategy_is_refused_with_its_line(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    """Before anything is drained."""
    assert change[0] in STRATEGY
    path = tmp_path / "strategy.yaml"
    path.write_text(STRATEGY.replace(*change))
    with pytest.raises(ConfigError) as caught:
        load_strategy(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")


def test_the_documented_strategy_is_the_default(tmp_path: Path) -> None:
    """People copy it from there, and nothing else may change by that."""
    text = (DEMO.parents[1] / "docs/rollout.md").read_text()
    path = tmp_path / "strategy.yaml"
    section = text.split("## The strategy file")[1]
    path.write_text(section.split("```yaml\n")[1].split("```")[0])
    assert load_strategy(path) == Strategy()
