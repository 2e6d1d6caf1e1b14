"""What holds for the cluster programs of all clouds, run through their entry file."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from cloud_fleets import SECOND_RACK, Outcome, Run, add_rack
from pulumi_mocks import Registration

from fleet.clouds import CLOUDS, Cloud
from infra.clouds import MODULES, program
from infra.clouds.protected import PROTECTED_TYPES, RACKS_BY_CLOUD, RETAINED_BY_CLOUD
from infra.outputs import read_outputs
from infra.policy_pack.pack import policies
from infra.policy_pack.resource import Provider, Resource

MAKING = [cloud for cloud in CLOUDS if cloud != "existing"]
PLANTED = "planted-5ecret"
CREDENTIALS = (
    "ARM_CLIENT_SECRET",
    "AWS_SECRET_ACCESS_KEY",
    "COREWEAVE_API_TOKEN",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "NEBIUS_IAM_TOKEN",
    "OCI_PRIVATE_KEY",
    "TF_VAR_private_key",
)


@pytest.fixture(scope="module", params=MAKING)
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """Be each cloud that something is made in."""
    chosen: Cloud = request.param
    return chosen


@pytest.fixture(scope="module")
def one(cloud: Cloud, run: Run) -> Outcome:
    """Run the page's example, on a machine whose environment is full of credentials."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CREDENTIALS:
            patch.setenv(name, PLANTED)
        return run(cloud)


@pytest.fixture(scope="module")
def two(cloud: Cloud, run: Run) -> Outcome:
    """Run the example with a second rack."""
    return run(cloud, add_rack(cloud))


def test_every_cloud_has_a_program() -> None:
    """A cloud that a fleet file may name must not end in a KeyError."""
    assert set(MODULES) == set(CLOUDS)
    assert all(program(cloud).promises for cloud in CLOUDS)


def test_all_goes_through_the_regions_own_provider(one: Outcome) -> None:
    """The default provider takes whatever account and region the shell happens to name."""
    providers = {item.name for item in one.providers}
    assert {item.provider for item in one.resources} == providers


def test_what_must_not_die_is_protected(cloud: Cloud, one: Outcome) -> None:
    """The list in infra/clouds/protected.py is what the guard and the policy pack go by."""
    for item in one.resources:
        assert item.protect == (item.type in PROTECTED_TYPES)
        assert item.retain == (item.type in RETAINED_BY_CLOUD[cloud])
    assert any(item.retain for item in one.resources)
    assert any(item.type in RACKS_BY_CLOUD[cloud] for item in one.resources)


def test_a_racks_place_in_the_list_means_nothing(cloud: Cloud, two: Outcome, run: Run) -> None:
    """Sorting the fleet file must not touch a running rack."""

    def turned(region: dict[str, Any]) -> None:
        add_rack(cloud)(region)
        region["racks"].reverse()

    assert run(cloud, turned).found == two.found


def test_a_new_rack_touches_no_other(one: Outcome, two: Outcome) -> None:
    """And taking it out again, neither: the same comparison, read backwards."""
    assert {key: two.found[key] for key in one.found} == one.found
    added = [two.found[key] for key in two.found if key not in one.found]
    assert added
    assert all(SECOND_RACK in item.name for item in added)


def test_nodes_are_told_their_rack(cloud: Cloud, two: Outcome) -> None:
    """Replicas are pinned to this label; a node without it stays empty for ever."""
    own = [item.inputs for item in two.resources if SECOND_RACK in item.name]
    label = f'"k3fleet.io/rack": "{SECOND_RACK}"'
    # In OCI it is in the nodes' cloud-init, which test_oci.py reads.
    assert cloud == "oci" or any(label in json.dumps(inputs) for inputs in own)


def test_everything_that_can_carry_a_tag_says_whose_it_is(cloud: Cloud, one: Outcome) -> None:
    """A bill and a clean-up go by tags."""
    defaults = [
        json.dumps(tags)
        for item in one.providers
        for tags in (item.inputs.get("defaultTags"), item.inputs.get("defaultLabels"))
        if tags
    ]
    tagged = defaults or [
        json.dumps(item.inputs[key])
        for item in one.resources
        for key in ("tags", "freeformTags")
        if key in item.inputs
    ]
    assert tagged or cloud == "coreweave"  # which has no such field but on node pools
    assert all("launch" in tags and "managed-by" in tags for tags in tagged)


def test_outputs_are_what_readers_expect(cloud: Cloud, two: Outcome) -> None:
    """`k3fleet outputs` and the platform stack read them by this model."""
    outputs: Any = read_outputs("cluster", "cluster-test", two.outputs)
    assert outputs.cloud == cloud
    assert outputs.cluster_name
    assert SECOND_RACK in outputs.racks
    assert outputs.endpoint.startswith("https://")


def test_the_policy_pack_has_nothing_to_say(two: Outcome) -> None:
    """Whoever runs `pulumi up --policy-pack` must not be stopped by what we declare ourselves."""
    resources = [_judged(item, two) for item in two.found.values()]
    faults = [
        str(fault)
        for policy in policies(date(2026, 12, 1))
        for fault in (
            *(policy.stack(resources, {}) if policy.stack else ()),
            *(fault for one in resources if policy.one for fault in policy.one(one, {})),
        )
    ]
    assert faults == []


def _judged(item: Registration, all_of_it: Outcome) -> Resource:
    """Show a resource to policies as the engine does."""
    made_by = next((it for it in all_of_it.providers if it.name == item.provider), None)
    return Resource(
        type=item.type,
        name=item.name,
        urn=f"urn:{item.type}::{item.name}",
        props=item.inputs,
        protected=item.protect,
        provider=(
            Provider(type=made_by.type, name=made_by.name, props=made_by.inputs)
            if made_by
            else None
        ),
    )


def test_no_credentials_get_into_the_state(one: Outcome) -> None:
    """A provider's inputs are stored; an SDK that reads the environment would put secrets there."""
    assert PLANTED not in repr((one.found, one.outputs))
