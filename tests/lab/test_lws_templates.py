"""The LeaderWorkerSet double makes what the real controller makes, as far as it is used."""

from __future__ import annotations

from lab_builders import pod

from lab.lws_templates import PREFIX, REVISION_LABEL, leader_set, worker_set

LWS = {
    "metadata": {"name": "r01-0", "namespace": "k3", "uid": "u1", "generation": 1},
    "spec": {
        "replicas": 1,
        "leaderWorkerTemplate": {
            "size": 2,
            "leaderTemplate": {
                "metadata": {"labels": {"app": "engine"}},
                "spec": {"containers": [{"name": "main", "env": [{"name": "MINE", "value": "1"}]}]},
            },
            "workerTemplate": {"spec": {"containers": [{"name": "main"}]}},
        },
    },
}
LEADER = pod("r01-0-0", uid="leader-uid", labels={REVISION_LABEL: "abc"})


def test_the_leader_is_a_stateful_set_owned_by_the_set():
    """Garbage collection of the set must take the leader along."""
    made = leader_set(LWS, "abc")
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert made["spec"]["template"]["metadata"]["labels"][PREFIX + "worker-index"] == "0"


def test_workers_are_owned_by_the_leader_pod():
    """Losing the leader must take its worker along: half a replica serves nobody."""
    made = worker_set(LWS, LEADER)
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Pod", "leader-uid")
    assert made["spec"]["ordinals"] == {"start": 1}
    assert made["spec"]["replicas"] == 1


def test_pods_learn_the_leaders_address_before_their_own_variables():
    """A manifest may build on LWS_LEADER_ADDRESS, so it has to come first."""
    env = leader_set(LWS, "abc")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env[0] == {"name": "LWS_LEADER_ADDRESS", "value": "r01-0-0.r01-0.k3"}
    assert env[-1] == {"name": "MINE", "value": "1"}


def test_the_template_itself_is_not_changed():
    """The digest of the template decides about a roll: changing it would roll forever."""
    before = repr(LWS)
    leader_set(LWS, "abc")
    worker_set(LWS, LEADER)
    assert repr(LWS) == before
