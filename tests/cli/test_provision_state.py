"""Locks, open operations and outputs: what the state of a fleet is asked."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

from provision_place import Place

OLD = "r-old"


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


def test_the_doctor_tells_what_was_never_deployed_from_what_is_well(place: Place) -> None:
    """A slip in the fleet file's state would otherwise look like good health."""
    assert place.run("doctor", "--stacks") == 0, place.err
    assert place.out.count("not deployed") == 2
    place.brought_up()
    assert place.run("doctor", "--stacks", "-o", "json") == 0, place.err
    assert [stack["deployed"] for stack in json.loads(place.out)["stacks"]] == [True, True]


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


def test_a_folder_among_the_locks_is_none(place: Place) -> None:
    """Pulumi's own look at them passes it over as well."""
    place.brought_up()
    lock(place, 12, "other-host").with_name("2.json").mkdir()
    assert place.run("unlock", "--yes") == 0, place.err
    assert "1 locks removed" in place.out


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


def test_a_stack_that_a_preview_made_is_not_brought_up(place: Place) -> None:
    """Pulumi knows it then, and it has nothing to show."""
    place.brought_up()
    place.pulumi.answer({"platform-us-east output": {}, "serving-us-east output": {}})
    assert place.run("outputs", "-o", "json") == 0, place.err
    assert json.loads(place.out) == {}
    assert "serving-us-east: not brought up yet" in place.err
