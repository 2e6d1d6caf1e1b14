"""The commands that provision, with a stand-in for Pulumi and for the regions' API servers."""

from __future__ import annotations

import json
import re

import pytest
from fake_pulumi import error, idle, step, summary
from provision_place import Place

EAST = [
    *("platform-us-east init", "platform-us-east up"),
    *("serving-us-east init", "serving-us-east up"),
]
OLD = "r-old"


def test_a_new_region_comes_up_layer_by_layer(place: Place) -> None:
    """What serves stands on the platform; of a new stack there is nothing to lose.

    What comes is said all the same, by what is rendered.
    """
    place.pulumi.answer({"up": {"events": [summary(create=5)]}})
    assert place.run("up", "--yes") == 0, place.err
    assert place.pulumi.asked() == EAST
    assert re.search(r"platform-us-east: new, \d+ create\n", place.err)
    assert "  create Namespace/k3\n" in place.err
    assert "  create LeaderWorkerSet/k3/us-east-r01-0\n" in place.err
    assert "serving-us-east" in place.out


def test_whoever_is_asked_or_has_policies_sees_the_engines_plan(place: Place) -> None:
    """It knows what the API server would refuse, and runs the policies."""
    assert place.run("up") == 3  # nobody can be asked
    assert place.pulumi.asked("preview") == ["platform-us-east preview"]
    place.pulumi.answer({"preview": {"code": 1, "events": [error("a policy says no")]}})
    (place.folder / "pack").mkdir()
    assert place.run("up", "--yes", "--policy-pack", str(place.folder / "pack")) == 7
    assert place.pulumi.asked("up") == []


def test_each_stack_is_told_its_cluster_and_its_context(place: Place) -> None:
    """The kubeconfig's current context is whatever somebody looked at last."""
    assert place.run("preview") == 0, place.err
    told = place.config("platform-us-east")
    assert told["context"] == "us-east"
    assert told["kubeconfig"] == str(place.folder / "kubeconfig")


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


@pytest.mark.parametrize("known", [False, True])
def test_a_wrong_context_is_found_before_anybody_is_asked(place: Place, known: bool) -> None:
    """What stands on a layer that is new is planned later; its cluster is there all the same."""
    place.write("us-east", cluster={"name": "prod"})
    if known:
        place.brought_up()
        place.pulumi.answer({"platform-us-east output": place.outputs(cluster_uid="another")})
    else:
        place.cluster.namespace("k3", fleet="other", region="us-east")
    assert place.run("up") == 11, place.err
    assert "Give --yes" not in place.err
    assert place.pulumi.asked("up") == []


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


def test_what_has_nothing_to_do_is_neither_asked_about_nor_updated(place: Place) -> None:
    """The plan has said so; an update would only cost the time of another one."""
    place.brought_up()
    place.pulumi.answer({"preview": {"events": idle()}})
    assert place.run("up") == 0, place.err
    assert "serving-us-east" in place.out
    assert "no changes" in place.out
    assert place.pulumi.asked("up") == []


def test_what_stands_on_a_change_is_updated_though_it_seemed_idle(place: Place) -> None:
    """Its plan was made before the change below it."""
    place.brought_up()
    change = step("update", "Role/k3/engines")
    previews = {"platform-us-east preview": {"events": [change]}, "preview": {"events": idle()}}
    place.pulumi.answer(previews)
    assert place.run("up", "--yes") == 0, place.err
    assert place.pulumi.asked("up") == ["platform-us-east up", "serving-us-east up"]


def test_after_a_bad_end_an_idle_plan_is_no_reason_to_stop(place: Place) -> None:
    """The state may say less than is there: that is what the marker is for."""
    place.brought_up()
    assert place.run("preview") == 0
    place.pulumi.answer({"preview": {"events": idle()}})
    (place.stacks / "serving-us-east/unclean").touch()
    assert place.run("up", "--yes") == 0, place.err
    assert place.pulumi.asked("refresh", "up") == ["serving-us-east refresh", "serving-us-east up"]


def test_a_teardown_goes_from_the_top(place: Place) -> None:
    """And never takes what is protected."""
    place.brought_up()
    assert place.run("destroy", "--yes") == 0, place.err
    assert place.pulumi.asked("destroy") == ["serving-us-east destroy", "platform-us-east destroy"]
    assert all("--exclude-protected" in call["args"] for call in place.pulumi.calls("destroy"))


def test_a_region_takes_nothing_down_that_others_share(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights' source and the names of all gateways are in the global stack."""
    place.write("us-east", **{"global": {"account": "123456789012", "region": "us-east-1"}})
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")  # nobody may ask for it
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    place.brought_up()
    assert place.run("destroy", "--yes") == 0, place.err
    assert place.run("destroy", "--all", "--yes") == 16
    assert "global: AWS cannot be asked whose credentials these are" in place.err


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
    assert "stays: Namespace/k3 (protected" in place.err
    assert place.pulumi.asked("unprotect") == []
    assert place.run(*words, "Namespace/k3") == 0, place.err
    assert urn in place.pulumi.calls("unprotect")[0]["args"]
    assert "stays: Namespace/k3 (Pulumi forgets it; delete it by hand" in place.err
    assert "stays: Namespace/k3 (Pulumi forgets it" in place.out


def test_a_teardown_says_what_it_leaves_before_it_asks_and_after(place: Place) -> None:
    """What stays costs money, or stands in the way of the next region."""
    place.brought_up()
    tokens = {
        "Namespace/k3": {"protect": True},
        "Role/k3/a": {},
        "Service/k3/kept": {"retainOnDelete": True},
        "Service/k3/gone": {},
        "cluster": {"external": True},
    }
    steps = [step("delete", name) for name in ("Service/k3/kept", "Service/k3/gone")]
    resources = [
        {
            "urn": step("", name)["resourcePreEvent"]["metadata"]["urn"],
            "type": f"kubernetes:core/v1:{name.partition('/')[0]}",
            **more,
        }
        for name, more in tokens.items()
    ]
    place.pulumi.answer(
        {
            "platform-us-east preview-destroy": {"events": steps},
            "platform-us-east export": {
                "prints": json.dumps({"deployment": {"resources": resources}})
            },
        }
    )
    words = ("destroy", "--layer", "platform")
    assert place.run(*words) == 3  # nobody can be asked
    told = [line.strip() for line in place.err.splitlines() if "stays" in line]
    assert [line.partition(" (")[0] for line in told[:3]] == [
        *("stays: Namespace/k3", "stays: Role/k3/a", "stays: Service/k3/kept"),
    ]
    assert told[3] == f"the state stays in {(place.stacks / 'state').as_uri()}"
    assert place.run(*words, "--yes", "-o", "json") == 0, place.err
    [stack] = json.loads(place.out)["regions"][0]["stacks"]
    assert {one["name"]: one["why"] for one in stack["stays"]} == {
        "Namespace/k3": "protected",
        "Role/k3/a": "needed",
        "Service/k3/kept": "retained",
    }


def test_without_a_terminal_nothing_is_done_unasked(place: Place) -> None:
    """A job has to say that it means it."""
    assert place.run("up") == 3
    assert "Give --yes" in place.err
    assert place.pulumi.asked("up") == []


def test_a_configuration_of_a_newer_k3fleet_is_refused(place: Place) -> None:
    """What it does not know it would drop."""
    assert place.run("preview") == 0, place.err
    place.config("platform-us-east", shinyNewThing=1)
    assert place.run("up", "--yes") == 3
    assert "shinyNewThing" in place.err
    assert "newer k3fleet" in place.err
