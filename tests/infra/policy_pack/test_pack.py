"""What the policy pack lets through and what it stops, asked over the engine's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from policy_engine import UNKNOWN, Engine, urn

from infra.policy_pack.linted import Linter
from infra.policy_pack.pack import policies

CASES = Path(__file__).parents[2] / "cases/policy_pack"
Item = Mapping[str, Any]


def cases(file: str) -> Iterator[tuple[str, Any, str | None]]:
    for entry in yaml.safe_load((CASES / file).read_text()):
        for item in entry["good"]:
            yield entry["policy"], item, None
        for item, said in entry["bad"]:
            yield entry["policy"], item, said


def told(engine: Engine, policy: str, item: Item | list[Item]) -> list[str]:
    found = engine.stack(item) if isinstance(item, list) else engine.one(item)
    return [violation.message for violation in found if violation.policy == policy]


@pytest.mark.parametrize(("policy", "item", "said"), [*cases("one.yaml"), *cases("stack.yaml")])
def test_a_policy_stops_what_breaks_it_and_nothing_else(
    engine: Engine, policy: str, item: Any, said: str | None
) -> None:
    """Each case is a resource, or a stack, as the engine sends it."""
    messages = told(engine, policy, item)
    if said is None:
        assert messages == []
    else:
        assert any(said in message for message in messages), messages


def test_every_policy_has_both_kinds_of_cases() -> None:
    """A policy that is never broken in a test may never be broken at all."""
    linter = {policy.name for policy in Linter(date(2026, 1, 1)).policies()}  # test_linted.py
    for wanted in (True, False):
        found = {
            policy
            for file in ("one.yaml", "stack.yaml")
            for policy, _, said in cases(file)
            if (said is None) is wanted
        }
        assert found | linter == {policy.name for policy in policies(date(2026, 1, 1))}


def test_all_but_advice_stops_an_update(engine: Engine) -> None:
    """An advisory that nobody reads is no policy."""
    levels = engine.policies()
    assert {name for name, level in levels.items() if level == "advisory"} == {
        "kubernetes-objects-advice"
    }


@pytest.mark.parametrize("level", ["advisory", "disabled"])
def test_a_team_chooses_how_strict_a_policy_is(engine: Engine, level: str) -> None:
    """By `--policy-pack-config`, without a change of the pack."""
    item = {"type": "aws:s3/bucket:Bucket", "props": {"acl": "public-read"}}
    engine.configure({"bucket-not-public": {"enforcementLevel": level}})
    found = [item.level for item in engine.one(item) if item.policy == "bucket-not-public"]
    assert found == ([] if level == "disabled" else [level])


def test_a_team_chooses_its_own_tags(engine: Engine) -> None:
    """A cost centre, for example."""
    item = {"type": "aws:kms/key:Key", "props": {"tags": {"cost": "7"}}}
    engine.configure({"required-tags": {"required": ["cost"]}})
    assert told(engine, "required-tags", item) == []


def test_a_team_names_images_that_it_trusts(engine: Engine) -> None:
    """Of a registry where tags cannot be moved."""
    pod = {"spec": {"containers": [{"name": "a", "image": "own.example/x:1"}]}}
    engine.configure({"images-by-digest": {"allowed": ["own.example/*"]}})
    assert told(engine, "images-by-digest", {"type": "kubernetes:core/v1:Pod", "props": pod}) == []


@pytest.mark.parametrize(
    ("policy", "kind", "props"),
    [
        ("bucket-not-public", "aws:s3/bucketPolicy:BucketPolicy", {"policy": UNKNOWN}),
        ("encrypted-at-rest", "aws:ebs/volume:Volume", {"encrypted": UNKNOWN}),
        ("required-tags", "aws:kms/key:Key", {"tags": UNKNOWN}),
        (
            "images-by-digest",
            "kubernetes:core/v1:Pod",
            {"spec": {"containers": [{"name": "a", "image": UNKNOWN}]}},
        ),
    ],
)
def test_what_a_preview_does_not_know_is_not_held_against_it(
    engine: Engine, policy: str, kind: str, props: Item
) -> None:
    """The update asks again, with the value."""
    assert told(engine, policy, {"type": kind, "props": props}) == []


def test_a_credential_is_never_repeated(engine: Engine) -> None:
    """Violations are printed, logged and kept."""
    token = "hf_" + "abcdefghijklmnop"
    env = [{"name": "HF_TOKEN", "value": token}]
    pod = {"spec": {"containers": [{"name": "a", "image": "x", "env": env}]}}
    found = engine.one({"type": "kubernetes:core/v1:Pod", "props": pod})
    assert {"no-credentials", "no-credentials-in-variables"} <= {item.policy for item in found}
    assert not any(token in item.message for item in found)


def test_a_violation_points_at_its_resource(engine: Engine) -> None:
    """The engine prints it beside it, and `k3fleet up` finds the rack by it."""
    item = {"type": "aws:s3/bucket:Bucket", "name": "weights", "props": {"acl": "public-read"}}
    assert {violation.urn for violation in engine.one(item)} == {urn(item)}
