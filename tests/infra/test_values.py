"""What is computed for the charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.plan import make_plan
from fleet.release import Dynamo, release_id
from fleet.release_set import release_set
from infra.options import Options
from infra.values import ServingValues, region_plan, serving_values

MakeFleet = Callable[..., Fleet]


def values(fleet: Fleet, options: Options | None = None) -> ServingValues:
    plan = region_plan(make_plan(fleet), "us-east")
    return serving_values(fleet, plan, options or Options())


@pytest.mark.parametrize(
    ("healthy", "budgets"), [(18, [16]), (17, [14]), (4, [2]), (2, []), (1, [])]
)
def test_a_budget_keeps_all_replicas_but_one(
    make_fleet: MakeFleet, healthy: int, budgets: list[int]
) -> None:
    """Two pods at a time is one replica; with one replica a budget would block every drain."""
    found = values(make_fleet({"use1-r01": healthy})).budgets
    assert [budget.min_available for budget in found] == budgets


def test_kimi_k3_gets_the_two_hours_of_the_public_recipes(demo: Fleet) -> None:
    """A shorter budget kills engines on a cold file system, in a loop."""
    startup = values(demo).replicas[0].release.startup
    assert startup.period_s * startup.failures == 7200


def test_a_pod_outlives_its_drain(demo: Fleet) -> None:
    """Otherwise Kubernetes kills the last streams of every rollout."""
    assert values(demo).replicas[0].release.grace_s > demo.release.drain_s


def test_weights_lie_in_a_folder_of_their_revision(demo: Fleet) -> None:
    """A new revision must be staged beside the old one, so that a rollback finds it."""
    weights = values(demo, Options(weights_dir="/disk/")).replicas[0].release.weights
    assert weights.folder == f"/disk/{demo.release.weights.revision}"


def test_a_revision_cannot_leave_the_weights_folder(demo: Fleet) -> None:
    """It becomes part of a path on the host."""
    evil = demo.release.weights.model_copy(update={"revision": "../../etc"})
    other = demo.release.model_copy(update={"weights": evil})
    options = Options(releases={"x": other}, assignment={"use1-r01-0": "x"})
    with pytest.raises(ConfigError, match="cannot name a folder"):
        values(demo, options)


def test_a_replica_runs_what_it_is_assigned_to(demo: Fleet) -> None:
    """A rollout is nothing but a sequence of assignments."""
    other = demo.release.model_copy(update={"max_num_seqs": 128})
    options = Options(
        releases={release_id(other): other}, assignment={"use1-r01-3": release_id(other)}
    )
    ids = {item.name: item.release.id for item in values(demo, options).replicas}
    assert {name for name, found in ids.items() if found == release_id(other)} == {"use1-r01-3"}


def test_an_unknown_release_names_the_known_ones(demo: Fleet) -> None:
    """The assignment file is written by a machine, but read by a person at night."""
    with pytest.raises(ConfigError, match=f"Use one of: {demo.release_id}"):
        values(demo, Options(assignment={"use1-r01-0": "gone"}))


def test_another_release_with_the_fleets_id_is_refused(demo: Fleet) -> None:
    """One of the two would silently take the other's place."""
    other = demo.release.model_copy(update={"max_num_seqs": 128})
    with pytest.raises(ConfigError, match="is also that of another release"):
        values(demo, Options(releases={demo.release_id: other}))


def test_an_unknown_region_names_the_known_ones(demo: Fleet) -> None:
    """A typo in --region must not render nothing."""
    with pytest.raises(ConfigError, match="Use one of: us-east"):
        region_plan(make_plan(demo), "us-esat")


def test_all_replicas_of_a_set_share_one_dynamo_namespace(make_fleet: MakeFleet) -> None:
    """Two namespaces split the region: routing and affinity act only inside one of them."""
    fleet = make_fleet({"use1-r01": 18, "use1-r02": 18})
    found = values(fleet)
    spaces = {item.release.env["DYN_NAMESPACE"] for item in found.replicas}
    [frontends] = found.frontends
    assert spaces == {frontends.env["DYN_NAMESPACE"]} == {f"demo-us-east-{frontends.set}"}


def test_a_set_that_is_kept_apart_has_frontends_of_its_own(demo: Fleet) -> None:
    """They match their namespace exactly, so none sees a replica of the other set."""
    other = demo.release.model_copy(
        update={"name": "b", "block_size": 2048, "dynamo": Dynamo(version="1.7.0", image="a/b:1")}
    )
    sister = other.model_copy(update={"max_num_seqs": 4})
    releases = {release_id(release): release for release in (other, sister)}
    names = ["use1-r01-3", "use1-r01-4"]
    found = values(
        demo, Options(releases=releases, assignment=dict(zip(names, releases, strict=True)))
    )
    own, apart = found.frontends
    assert own.set == release_set(demo.release)
    assert apart.set == release_set(other) == release_set(sister)
    assert (own.dynamo_version, apart.dynamo_version) == (demo.release.dynamo.version, "1.7.0")
    assert own.replicas == apart.replicas
    seen = {
        frontends.set: {
            item.name
            for item in found.replicas
            if item.release.env["DYN_NAMESPACE"] == frontends.env["DYN_NAMESPACE"]
        }
        for frontends in found.frontends
    }
    assert seen[apart.set] == set(names)
    assert len(seen[own.set]) == 7
    assert not [name for item in found.frontends for name in item.env if "PREFIX" in name]


def test_sessions_of_which_nobody_said_anything_stay_where_most_replicas_are(
    make_fleet: MakeFleet,
) -> None:
    """Of two that are as many it is the fleet file's: the first step must not move a session."""
    fleet = make_fleet({"use1-r01": 4})
    other = fleet.release.model_copy(update={"block_size": 2048})
    options = Options(
        releases={release_id(other): other}, assignment={"use1-r01-0": release_id(other)}
    )
    assert values(fleet, options).gateway.sets.default == f"set-{release_set(fleet.release)}"
    both = dict.fromkeys(("use1-r01-0", "use1-r01-1"), release_id(other))
    [cluster] = values(fleet, replace(options, assignment=both)).gateway.sets.clusters
    assert cluster.name == f"set-{release_set(other)}"


@pytest.mark.parametrize(
    ("router", "words"),
    [
        ({}, ["900", "soft"]),
        ({"session_affinity": "hard", "session_affinity_ttl": "90s"}, ["90", "hard"]),
        ({"session_affinity": "off"}, []),
    ],
)
def test_session_affinity_is_the_fleet_files(
    make_fleet: MakeFleet, router: dict[str, str], words: list[str]
) -> None:
    """Dynamo's default is hard affinity, which turns a crash into seconds of errors."""
    args = values(make_fleet(router=router)).frontends[0].args
    assert [word for flag, word in pairwise(args) if flag.startswith("--router-session")] == words


def test_a_dns_server_without_port_is_refused(demo: Fleet) -> None:
    """Envoy would only say that its file is invalid."""
    with pytest.raises(ConfigError, match=r"host:port\. Write for example"):
        values(demo, Options(dns_server="10.0.0.2"))
