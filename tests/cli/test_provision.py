"""The commands that provision, with a stand-in for Pulumi and for the regions' API servers."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_pulumi import error, step, summary
from provision_place import Place

from fleet.load import load_fleet

EAST = [
    *("platform-us-east init", "platform-us-east preview"),
    *("platform-us-east up", "serving-us-east init", "serving-us-east up"),
]
OLD = "r-old"


def test_a_new_region_comes_up_layer_by_layer(place: Place) -> None:
    """What serves stands on the platform; of a new stack there is nothing to lose."""
    place.pulumi.answer(
        {"preview": {"events": [summary(create=5)]}, "up": {"events": [summary(create=5)]}}
    )
    assert place.run("up", "--yes") == 0, place.err
    assert place.pulumi.asked() == EAST
    assert "platform-us-east: new, 5 create" in place.err
    assert "serving-us-east" in place.out


def test_each_stack_is_told_its_cluster_and_its_context(place: Place) -> None:
    """The kubeconfig's current context is whatever somebody looked at last."""
    place.brought_up()
    file = place.folder / ".k3fleet/demo/stacks/serving-us-east/Pulumi.serving-us-east.yaml"
    config = yaml.safe_load(file.read_text())["config"]
    assert config["k3fleet-serving:context"] == "us-east"
    assert config["k3fleet-serving:kubeconfig"] == str(place.folder / "kubeconfig")


def test_a_preview_changes_nothing(place: Place) -> None:
    """It says what an update would do, for programs as well."""
    place.brought_up()
    change = step(
        "update", "Service/k3/engines", detailedDiff={"spec.ports": {"diffKind": "update"}}
    )
    place.pulumi.answer({"serving-us-east preview": {"events": [change, summary(update=1)]}})
    assert place.run("preview", "-o", "json") == 0, place.err
    stacks = json.loads(place.out)["regions"][0]["stacks"]
    assert [stack["changes"] for stack in stacks] == [{}, {"update": 1}]
    assert stacks[1]["objects"][0]["changed"] == ["spec.ports"]
    assert place.pulumi.asked("up", "destroy", "refresh") == []


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
    file = place.folder / ".k3fleet/demo/stacks/serving-us-east/Pulumi.serving-us-east.yaml"
    content = yaml.safe_load(file.read_text())
    content["config"] |= {
        "k3fleet-serving:assignment": {"us-east-r01-0": own},
        "k3fleet-serving:serial": 4,
    }
    file.write_text(yaml.safe_dump(content))
    deployed = {**place.releases(own), "us-east-r01-0": OLD}
    place.pulumi.answer({"serving-us-east output": place.outputs(serial=3, releases=deployed)})
    assert place.run("up", "--yes") == 0, place.err
    place.pulumi.answer({"serving-us-east output": place.outputs(serial=4, releases=deployed)})
    assert place.run("up", "--yes") == 12  # applied already: somebody else has changed it since


def test_another_cluster_is_refused_before_anything_is_touched(place: Place) -> None:
    """A context of the same name in another kubeconfig leads anywhere."""
    place.brought_up()
    place.pulumi.answer({"platform-us-east output": place.outputs(cluster_uid="another")})
    for command in (("up", "--yes"), ("destroy", "--yes"), ("refresh",)):
        assert place.run(*command) == 11
        assert "stack is of cluster another" in place.err
        assert "To move the region on purpose" in place.err
    assert place.pulumi.asked("preview", "up", "destroy", "refresh") == []


def test_a_namespace_of_another_fleet_is_refused(place: Place) -> None:
    """Two regions with one context would fill one namespace."""
    place.cluster.namespace("k3", fleet="other", region="us-east")
    assert place.run("up", "--yes") == 11
    assert "belongs to region us-east of fleet other" in place.err


def test_a_cluster_that_does_not_answer_is_said_at_once(place: Place) -> None:
    """A refresh would otherwise take it for an empty one."""
    place.brought_up()
    place.cluster.url = "http://127.0.0.1:9"
    place.cluster.kubeconfig(place.folder / "kubeconfig", "us-east")
    assert place.run("refresh") == 11
    assert "does not answer" in place.err
    assert place.pulumi.asked("refresh") == []


def test_a_context_that_is_nowhere_is_named(place: Place) -> None:
    """Not the current one instead."""
    place.cluster.kubeconfig(place.folder / "kubeconfig", "elsewhere")
    assert place.run("up", "--yes") == 3
    assert "context us-east: not found" in place.err


def test_drift_is_an_exit_code(place: Place) -> None:
    """For a job that looks every night."""
    place.brought_up()
    assert place.run("preview", "--expect-no-changes") == 0, place.err
    assert all("--refresh" in call["args"] for call in place.pulumi.calls("preview"))
    change = step(
        "update", "Service/k3/engines", detailedDiff={"spec.ports": {"diffKind": "update"}}
    )
    place.pulumi.answer({"serving-us-east preview": {"events": [change]}})
    assert place.run("preview", "--expect-no-changes") == 1
    assert "update Service/k3/engines (spec.ports)" in place.out


def test_a_region_that_fails_does_not_stop_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own later layers are left out; the table says so."""
    place.write("us-east", "eu-west")
    kubeconfigs = [
        place.cluster.kubeconfig(place.folder / name, name) for name in ("us-east", "eu-west")
    ]
    place.cluster.objects.pop("/api/v1/namespaces/k3", None)
    place.pulumi.answer({"platform-us-east up": {"code": 1, "events": [error("quota exceeded")]}})
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, kubeconfigs)))
    assert place.run("up", "--all", "--yes", "-o", "json") == 7
    told = json.loads(place.out)
    found = {
        stack["stack"]: stack["status"] for region in told["regions"] for stack in region["stacks"]
    }
    assert found == {
        "platform-us-east": "failed",
        "serving-us-east": "skipped",
        "platform-eu-west": "ok",
        "serving-eu-west": "ok",
    }
    assert "quota exceeded" in place.err


def test_one_of_several_regions_has_to_be_named(place: Place) -> None:
    """All of them at once is said, not assumed."""
    place.write("us-east", "eu-west")
    assert place.run("preview") == 3
    assert "give one of us-east, eu-west; or --all" in place.err


@pytest.mark.parametrize(
    ("words", "stacks"),
    [
        (["--layer", "serving"], ["serving-us-east preview"]),
        (["--from", "platform"], ["platform-us-east preview", "serving-us-east preview"]),
    ],
)
def test_layers_can_be_chosen(place: Place, words: list[str], stacks: list[str]) -> None:
    """To go on after a failure, or to leave the slow ones alone."""
    place.brought_up()
    assert place.run("preview", *words) == 0, place.err
    assert place.pulumi.asked("preview") == stacks


def test_a_teardown_goes_from_the_top(place: Place) -> None:
    """And never takes what is protected."""
    place.brought_up()
    assert place.run("destroy", "--yes") == 0, place.err
    assert place.pulumi.asked("destroy") == ["serving-us-east destroy", "platform-us-east destroy"]
    assert all("--exclude-protected" in call["args"] for call in place.pulumi.calls("destroy"))


def test_what_another_layer_stands_on_is_not_destroyed(place: Place) -> None:
    """Replicas would lose their roles and policies under way."""
    place.brought_up()
    service = {"urn": "urn:pulumi:s::p::kubernetes:core/v1:Service::Service/k3/engines"}
    exported = {"deployment": {"resources": [{**service, "type": "kubernetes:core/v1:Service"}]}}
    place.pulumi.answer({"serving-us-east export": {"prints": json.dumps(exported)}})
    assert place.run("destroy", "--layer", "platform", "--yes") == 12
    assert "serving-us-east: still stands on" in place.err


def test_what_is_protected_is_let_go_by_its_name(place: Place) -> None:
    """It stays in the cluster, and the user is told."""
    place.brought_up()
    urn = "urn:pulumi:s::p::kubernetes:core/v1:Namespace::Namespace/k3"
    kept = {
        "urn": urn,
        "type": "kubernetes:core/v1:Namespace",
        "protect": True,
        "retainOnDelete": True,
    }
    exported = {"prints": json.dumps({"deployment": {"resources": [kept]}})}
    place.pulumi.answer({"platform-us-east export": exported})
    words = ("destroy", "--layer", "platform", "--yes", "--allow-delete")
    assert place.run(*words, "Namespace/*") == 0, place.err
    assert place.pulumi.asked("unprotect") == []
    assert place.run(*words, "Namespace/k3") == 0, place.err
    assert urn in place.pulumi.calls("unprotect")[0]["args"]
    assert "Namespace/k3 was let go" in place.err


def test_without_a_terminal_nothing_is_done_unasked(place: Place) -> None:
    """A job has to say that it means it."""
    assert place.run("up") == 3
    assert "Give --yes" in place.err
    assert place.pulumi.asked("up") == []


def pending(operation: str, kind: str, name: str) -> dict[str, Any]:
    urn = f"urn:pulumi:s::p::kubernetes:core/v1:{kind}::{kind}/k3/{name}"
    inputs = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "k3"}}
    resource = {"urn": urn, "type": f"kubernetes:core/v1:{kind}", "inputs": inputs}
    return {"type": operation, "resource": resource}


def test_open_operations_are_named_then_closed(place: Place) -> None:
    """What a killed engine was about to create is there or not: only the cluster knows."""
    place.brought_up()
    items = [pending("creating", "Service", "there"), pending("creating", "Service", "lost")]
    place.cluster.objects["/api/v1/namespaces/k3/services/there"] = {"metadata": {"name": "there"}}
    exported = {"prints": json.dumps({"deployment": {"pending_operations": items}})}
    place.pulumi.answer({"serving-us-east export": exported})
    assert place.run("refresh") == 12
    assert "creating Service/k3/there: taken in" in place.err
    assert "creating Service/k3/lost: dropped" in place.err
    assert place.run("refresh", "--repair") == 0, place.err
    [call] = [one for one in place.pulumi.calls("refresh") if one["stack"] == "serving-us-east"]
    words = call["args"]
    urns = [words[at + 1] for at, word in enumerate(words) if word == "--import-pending-creates"]
    assert urns == [items[0]["resource"]["urn"], "k3/there"]
    assert "--clear-pending-creates" in words


def test_the_doctor_names_what_a_killed_update_left(place: Place) -> None:
    """With what it would do about it, and the command."""
    place.brought_up()
    assert place.run("doctor", "--stacks") == 0, place.err
    items = {"deployment": {"pending_operations": [pending("creating", "Service", "lost")]}}
    place.pulumi.answer({"serving-us-east export": {"prints": json.dumps(items)}})
    assert place.run("doctor", "--stacks", "-o", "json") == 1
    [_, serving] = json.loads(place.out)["stacks"]
    assert serving["faults"] == ["creating Service/k3/lost: dropped, there is no such object"]
    assert serving["fix"].endswith("--layer serving --region us-east --repair")


def test_an_update_closes_what_the_last_one_left_open(place: Place) -> None:
    """Else it would create again what is there already."""
    place.brought_up()
    warning = {"diagnosticEvent": {"severity": "warning", "message": "with 1 pending operations"}}
    place.pulumi.answer({"serving-us-east preview": {"events": [warning]}})
    assert place.run("up", "--yes") == 0, place.err
    assert place.pulumi.asked("refresh", "up") == [
        *("platform-us-east up", "serving-us-east refresh", "serving-us-east up"),
    ]


def lock(place: Place, pid: int, host: str) -> Path:
    folder = place.folder / ".k3fleet/demo/stacks/state/.pulumi/locks/organization/k3fleet-serving"
    file = folder / "serving-us-east" / "1.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    since = "2026-11-30T12:00:00Z"
    file.write_text(
        json.dumps({"pid": pid, "hostname": host, "username": "me", "timestamp": since})
    )
    return file


def test_a_dead_holders_lock_is_removed_when_the_user_agrees(place: Place) -> None:
    """And the next update looks at what is there first."""
    place.brought_up()
    ended = subprocess.Popen(["true"])
    ended.wait()
    file = lock(place, ended.pid, socket.gethostname())
    assert place.run("unlock") == 3  # nobody can be asked
    assert file.exists()
    assert f"process {ended.pid}@" in place.err
    assert place.run("unlock", "--yes") == 0, place.err
    assert not file.exists()
    assert place.run("up", "--yes") == 0
    assert "serving-us-east refresh" in place.pulumi.asked()


def test_a_lock_from_another_machine_stops_an_update(place: Place) -> None:
    """Its holder may be alive: exit code 9, with process, machine and age."""
    place.brought_up()
    lock(place, 12, "other-host")
    assert place.run("up", "--yes") == 9
    assert "process 12@other-host of me, for" in place.err
    assert place.pulumi.asked("preview", "up") == ["platform-us-east preview"]


def test_outputs_are_checked_and_printed(place: Place) -> None:
    """A program that reads them must not meet a surprise."""
    place.brought_up()
    serving = place.outputs(serial=2, releases=place.releases(OLD))
    place.pulumi.answer({"serving-us-east output": serving})
    assert place.run("outputs", "--layer", "serving", "-o", "json") == 0, place.err
    assert json.loads(place.out)["serving-us-east"]["serial"] == 2
    place.pulumi.answer({"serving-us-east output": place.outputs(serial="many")})
    assert place.run("outputs", "--layer", "serving") == 3
    assert "output serial" in place.err


def test_a_configuration_of_a_newer_k3fleet_is_refused(place: Place) -> None:
    """What it does not know it would drop."""
    place.brought_up()
    file = place.folder / ".k3fleet/demo/stacks/serving-us-east/Pulumi.serving-us-east.yaml"
    content = yaml.safe_load(file.read_text())
    content["config"]["k3fleet-serving:shinyNewThing"] = 1
    file.write_text(yaml.safe_dump(content))
    assert place.run("up", "--yes") == 3
    assert "shinyNewThing" in place.err
    assert "newer k3fleet" in place.err
