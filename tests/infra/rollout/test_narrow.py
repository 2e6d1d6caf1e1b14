"""When a step may be applied without asking the engine first, and what it may touch then."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fleet.load import Fleet
from fleet.release import release_id
from infra.declared import inputs_of, logical_name, type_token
from infra.options import Options
from infra.render import KubeObject, render_region
from infra.rollout.narrow import own_targets
from infra.stack_state import PendingOperation, StackState, StateResource, read_state

REGION, RACK = "us-east", "use1-r01"
STEP = (f"{RACK}-1",)
PREFIX = "urn:pulumi:serving-us-east::k3fleet-serving::"
PROVIDER = f"{PREFIX}pulumi:providers:kubernetes::kubernetes"
LWS = f"{PREFIX}kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet::LeaderWorkerSet"
Rendered = Callable[..., tuple[KubeObject, ...]]


@pytest.fixture
def rendered(make_fleet: Callable[..., Fleet]) -> Rendered:
    """Render a region of three replicas; what is assigned another release is named."""
    fleet = make_fleet({RACK: 6})
    new = fleet.release.model_copy(update={"name": "new", "max_num_seqs": 9})

    def render(*moved: str) -> tuple[KubeObject, ...]:
        identity = release_id(new)
        assigned = dict.fromkeys(moved, identity)
        known = {identity: new} if moved else {}
        options = Options(assignment=assigned, releases=known)
        return tuple(render_region(fleet, REGION, "serving", options))

    return render


def stated(objects: tuple[KubeObject, ...]) -> StackState:
    """Give the state of a stack that has brought these objects, as `pulumi stack export` does."""
    own = [
        {"urn": f"{PREFIX}{type_token(o)}::{logical_name(o)}", "type": type_token(o)}
        | {"inputs": inputs_of(o)}
        for o in objects
    ]
    others = [
        {"urn": f"{PREFIX}pulumi:pulumi:Stack::k3fleet-serving-serving-us-east"}
        | {"type": "pulumi:pulumi:Stack"},
        {"urn": PROVIDER, "type": "pulumi:providers:kubernetes"},
        {"urn": f"{PREFIX}kubernetes:core/v1:Namespace::cluster", "external": True}
        | {"type": "kubernetes:core/v1:Namespace"},
    ]
    text = json.dumps({"deployment": {"resources": [*others, *own]}})
    return read_state("serving-us-east", json.loads(text))


def test_a_step_that_touches_its_own_is_held_to_it(rendered: Rendered) -> None:
    """The other replicas and all that is shared are what they were."""
    found = own_targets(stated(rendered()), rendered(*STEP), STEP)
    assert found == (PROVIDER, f"{LWS}/k3/{STEP[0]}")


def test_what_is_applied_already_needs_nothing_but_the_outputs(rendered: Rendered) -> None:
    """A driver died behind its update: the next one does it again."""
    assert own_targets(stated(rendered(*STEP)), rendered(*STEP), STEP) == (PROVIDER,)


def test_new_files_of_a_release_come_with_it(rendered: Rendered) -> None:
    """Their names have a hash of what is in them; the engine deletes none that it may not judge."""
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "k3", "name": "o-1"}}
    new = {**old, "metadata": {"namespace": "k3", "name": "n-2"}}
    kind = f"{PREFIX}kubernetes:core/v1:ConfigMap::ConfigMap/k3"
    found = own_targets(stated((*rendered(), old)), (*rendered(*STEP), old, new), STEP)
    assert found == (PROVIDER, f"{kind}/n-2", f"{LWS}/k3/{STEP[0]}")
    assert own_targets(stated((*rendered(), old)), rendered(*STEP), STEP) is None


def test_another_replica_is_for_the_engine_to_judge(rendered: Rendered) -> None:
    """And then for people: somebody has assigned it beside the rollout."""
    moved = rendered(*STEP, f"{RACK}-0")
    assert own_targets(stated(rendered()), moved, STEP) is None


def test_a_shared_object_is_for_the_engine_to_judge(rendered: Rendered) -> None:
    """The fleet file was edited meanwhile."""
    edited = rendered(*STEP)
    shared = next(o for o in edited if o["kind"] == "Deployment")
    changed = {**shared, "spec": {**shared["spec"], "replicas": 77}}
    others = tuple(changed if o is shared else o for o in edited)
    assert own_targets(stated(rendered()), others, STEP) is None


@pytest.mark.parametrize("gone", ["told", "remembered"])
def test_a_replica_that_comes_or_goes_is_for_the_engine_to_judge(
    rendered: Rendered, gone: str
) -> None:
    """A step never deletes one, and makes none of another's."""
    other = f"{RACK}-2"
    few = tuple(o for o in rendered() if o["metadata"]["name"] != other)
    state, told = (rendered(), few) if gone == "told" else (few, rendered())
    assert own_targets(stated(state), told, STEP) is None


def test_an_update_that_was_cut_off_is_for_the_engine_to_judge(rendered: Rendered) -> None:
    """Nobody knows what came of its operations."""
    state = stated(rendered())
    pending = PendingOperation(type="updating", resource=state.resources[-1])
    cut = state.model_copy(update={"pending": (pending,)})
    assert own_targets(cut, rendered(*STEP), STEP) is None
    twice = state.model_copy(update={"resources": (*state.resources, state.resources[-1])})
    assert own_targets(twice, rendered(*STEP), STEP) is None


@pytest.mark.parametrize("mark", ["delete", "pendingReplacement", "taint"])
def test_what_waits_for_its_end_or_successor_is_for_the_engine_to_judge(
    rendered: Rendered, mark: str
) -> None:
    """Its inputs are those of the program, and the engine makes it anew all the same."""
    told = stated(rendered()).resources
    shared = next(item for item in told if item.type.endswith(":Service"))
    marked = StateResource.model_validate({**shared.model_dump(), mark: True})
    state = StackState(resources=tuple(marked if item is shared else item for item in told))
    assert own_targets(state, rendered(*STEP), STEP) is None


def test_a_number_is_the_same_however_it_is_written(rendered: Rendered) -> None:
    """Pulumi's state has floats, and no nulls."""
    told = stated(rendered()).resources
    floats = tuple(
        item.model_copy(update={"inputs": json.loads(json.dumps(item.inputs), parse_int=float)})
        for item in told
    )
    nulls = tuple({**o, "status": None} for o in rendered(*STEP))
    found = own_targets(StackState(resources=floats), nulls, STEP)
    assert found == (PROVIDER, f"{LWS}/k3/{STEP[0]}")


def test_a_secret_that_the_state_has_encrypted_is_for_the_engine_to_judge(
    rendered: Rendered,
) -> None:
    """Nobody here can compare it."""
    told = stated(rendered()).resources
    shared = next(item for item in told if item.type.endswith(":Service"))
    sealed = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
    hidden = shared.model_copy(update={"inputs": {**shared.inputs, "spec": sealed}})
    state = StackState(resources=tuple(hidden if item is shared else item for item in told))
    assert own_targets(state, rendered(*STEP), STEP) is None


def test_a_state_of_another_shape_is_for_the_engine_to_judge(rendered: Rendered) -> None:
    """Without a provider it is not one that our program has made."""
    state = stated(rendered())
    bare = state.model_copy(update={"resources": state.resources[3:]})
    assert own_targets(bare, rendered(*STEP), STEP) is None
