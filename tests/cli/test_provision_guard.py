"""What `k3fleet up` refuses, and how it is allowed."""

from __future__ import annotations

import io
import sys

import pytest
from fake_pulumi import error, step
from provision_place import Place

from fleet.load import load_fleet

OLD = "r-old"


@pytest.mark.parametrize(
    ("operation", "name", "allow", "may"),
    [
        ("delete", "Deployment/k3/frontend", "--allow-delete=Deployment/k3/frontend", True),
        ("replace", "Service/k3/engines", "--allow-replace=Service/k3/*", True),
        ("delete", "Namespace/k3", "--allow-delete=Namespace/*", False),
        ("replace", "ComputeDomain/k3/r01", "--allow-replace=ComputeDomain/k3/r01", False),
    ],
)
def test_what_takes_away_is_refused_unless_it_is_named(
    place: Place, operation: str, name: str, allow: str, *, may: bool
) -> None:
    """A fleet file with a typing mistake must not empty a region."""
    place.brought_up()
    change = step(operation, name, keys=["spec.clusterIP"])
    place.pulumi.answer({"serving-us-east preview": {"events": [change]}})
    assert place.run("up", "--yes") == 12
    assert f"{operation} {name}, because of spec.clusterIP" in place.err
    assert (place.run("up", "--yes", allow) == 0) == may, place.err
    assert bool(place.pulumi.asked("up")) == may


def test_what_the_engine_would_not_delete_is_said_as_a_refusal(place: Place) -> None:
    """It stops at the first protected object, with a hint at Pulumi's own commands."""
    place.brought_up()
    urn = "urn:pulumi:s::p::kubernetes:core/v1:Namespace::Namespace/k3"
    said = f'Preview failed: resource "{urn}" cannot be deleted\nbecause it is protected.'
    stopped = {"code": 255, "events": [error(said, urn)]}
    place.pulumi.answer({"platform-us-east preview": [stopped, stopped, {"events": []}]})
    assert place.run("up", "--yes") == 12
    assert "delete Namespace/k3. It is protected" in place.err
    assert place.run("up", "--yes", "--allow-delete", "Namespace/k3") == 0, place.err
    assert place.pulumi.asked("unprotect", "up") == [
        *("platform-us-east unprotect", "platform-us-east up", "serving-us-east up"),
    ]


def test_a_file_that_comes_with_a_new_name_is_no_loss(place: Place) -> None:
    """The gateway's ConfigMap is named after its content."""
    place.brought_up()
    events = [step("create", "ConfigMap/k3/gateway-b"), step("delete", "ConfigMap/k3/gateway-a")]
    place.pulumi.answer({"serving-us-east preview": {"events": events}})
    assert place.run("up", "--yes") == 0, place.err


def test_replicas_are_not_restarted_by_the_way(place: Place) -> None:
    """A newer chart would make all pods of a region anew at once."""
    place.brought_up()
    token = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"  # noqa: S105 - a type
    diff = {"spec.leaderWorkerTemplate.size": {"diffKind": "update"}}
    change = step("update", "LeaderWorkerSet/k3/us-east-r01-0", token=token, detailedDiff=diff)
    place.pulumi.answer({"serving-us-east preview": {"events": [change]}})
    assert place.run("up", "--yes") == 12
    assert "restart LeaderWorkerSet/k3/us-east-r01-0" in place.err
    assert place.run("up", "--yes", "--allow-restart", "*/us-east-r01-0") == 0, place.err


def test_a_new_release_is_not_brought_out_by_the_way(place: Place) -> None:
    """It would be drawn on all replicas at once, without canary and gates."""
    place.brought_up()
    place.pulumi.answer(
        {"serving-us-east output": place.outputs(serial=0, releases=place.releases(OLD))}
    )
    assert place.run("up", "--yes") == 12
    assert "k3fleet rollout start" in place.err
    assert place.pulumi.asked("up") == []


def test_what_a_rollout_has_written_down_is_applied(place: Place) -> None:
    """An update at any moment brings what is recorded, never more."""
    place.brought_up()
    own = load_fleet(place.fleet).release_id
    assert place.run("preview", "--layer", "serving") == 0, place.err
    place.config("serving-us-east", assignment={"us-east-r01-0": own}, serial=4)
    deployed = {**place.releases(own), "us-east-r01-0": OLD}
    place.pulumi.answer({"serving-us-east output": place.outputs(serial=3, releases=deployed)})
    assert place.run("up", "--yes") == 0, place.err
    place.pulumi.answer({"serving-us-east output": place.outputs(serial=4, releases=deployed)})
    assert place.run("up", "--yes") == 12  # applied already: somebody else has changed it since


class Agreeing(io.StringIO):
    """A terminal at which somebody agrees."""

    def isatty(self) -> bool:
        return True


def test_only_what_was_shown_is_done(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked may think about it for an hour, and others go on meanwhile."""
    place.brought_up()
    shown = {"events": [step("update", "Service/k3/a")]}
    other = {"events": [step("update", "Service/k3/a"), step("create", "Service/k3/b")]}
    monkeypatch.setattr(sys, "stdin", Agreeing("y\n"))
    place.pulumi.answer({"serving-us-east preview": [shown, other]})
    assert place.run("up") == 12
    assert "no longer what was shown" in place.err
    assert place.pulumi.asked("up") == ["platform-us-east up"]
    monkeypatch.setattr(sys, "stdin", Agreeing("y\n"))
    place.pulumi.answer({"serving-us-east preview": shown})
    assert place.run("up") == 0, place.err
