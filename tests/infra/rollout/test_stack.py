"""What a region's replicas are to run, in its stack's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fleet.errors import ConfigError
from fleet.load import Fleet, load_release
from fleet.release import release_id
from infra.file_config import FileConfig
from infra.options import Options
from infra.rollout.stack import Deployed, Stack
from infra.settings import Settings, from_config
from infra.stacks import StackRunner

NEW = "extends: vllm-tp8-dcp8\nname: new\nmax_num_seqs: 64\n"
PLACE = Options(dra=False, bare=True, gateway_listen="127.0.0.1", gateway_admin_port=0)


@pytest.fixture
def stack(tmp_path: Path, make_fleet: Callable[..., Fleet]) -> Stack:
    """Give a stack as a lab makes it, and a rollout that brings a new release."""
    fleet = make_fleet({"use1-r01": 6})
    file = tmp_path / "new.yaml"
    file.write_text(NEW)
    runner = StackRunner(
        layer="serving",
        settings=Settings(
            fleet=fleet.path, region="us-east", kubeconfig=tmp_path / "kubeconfig", options=PLACE
        ),
        work_dir=tmp_path,
        env={},
    )
    runner.folder.mkdir()
    runner.write_config()
    new = release_id(load_release(str(file), beside=file))
    sources = {new: str(file), fleet.release_id: "vllm-tp8-dcp8"}
    return Stack(runner=runner, fleet=fleet, sources=sources)


def new_id(stack: Stack) -> str:
    return next(id_ for id_ in stack.sources if id_ != stack.fleet.release_id)


def written(stack: Stack) -> Settings:
    return from_config(FileConfig.read(stack.runner.config_file))


def test_only_the_assignment_changes(stack: Stack) -> None:
    """The place stays, or an update would roll every replica; the serial says it is newer."""
    before = written(stack)
    stack.assign({"use1-r01-1": new_id(stack)}, serial=1)
    after = written(stack)
    assert after.options.assignment == {"use1-r01-1": new_id(stack)}
    assert after.options.serial == 1
    assert (after.options.dra, after.options.bare) == (before.options.dra, before.options.bare)
    assert stack.rendered()["use1-r01-1"]["metadata"]["labels"]["k3fleet.io/release"] == new_id(
        stack
    )
    assert stack.rendered()["use1-r01-0"]["metadata"]["labels"]["k3fleet.io/release"] == (
        stack.fleet.release_id
    )


def test_the_same_again_changes_nothing(stack: Stack) -> None:
    """After a kill the phase is done again."""
    stack.assign({"use1-r01-1": new_id(stack)}, serial=1)
    text = stack.runner.config_file.read_bytes()
    stack.assign({"use1-r01-1": new_id(stack)}, serial=1)
    assert stack.runner.config_file.read_bytes() == text


def test_the_way_back_has_a_higher_serial_too(stack: Stack) -> None:
    """It is a newer decision, and not an older file."""
    stack.assign({"use1-r01-1": new_id(stack)}, serial=1)
    stack.assign({"use1-r01-1": stack.fleet.release_id}, serial=2)
    assert written(stack).options.serial == 2
    assert written(stack).releases == ()
    assert stack.rendered()["use1-r01-1"]["metadata"]["labels"]["k3fleet.io/release"] == (
        stack.fleet.release_id
    )


def test_pulumi_may_write_the_file_anew(stack: Stack) -> None:
    """It turns flags and numbers into texts; `"false"` read as true would add claims to pods."""
    path = stack.runner.config_file
    raw = yaml.safe_load(path.read_text())
    raw["config"] = {
        key: str(value).lower() if isinstance(value, bool | int) else value
        for key, value in raw["config"].items()
    }
    path.write_text(yaml.safe_dump(raw))
    stack.assign({"use1-r01-1": new_id(stack)}, serial=1)
    options = written(stack).options
    assert (options.dra, options.bare, options.gateway_admin_port) == (False, True, 0)


def test_a_release_that_was_edited_on_its_way_is_refused(stack: Stack) -> None:
    """Half of the replicas would run another one under the same id."""
    file = Path(stack.sources[new_id(stack)])
    file.write_text(NEW.replace("64", "65"))
    with pytest.raises(ConfigError, match="Restore the file"):
        stack.release(new_id(stack))


def test_a_damaged_configuration_is_named(stack: Stack) -> None:
    """Nothing may be guessed about what replicas run."""
    stack.runner.config_file.write_text("config: [")
    with pytest.raises(ConfigError, match=stack.runner.config_file.name):
        stack.assign({"use1-r01-1": new_id(stack)}, serial=1)


def test_a_serial_never_falls(stack: Stack) -> None:
    """Whatever an old record says: what is deployed refuses older ones."""
    stack.assign({"use1-r01-1": new_id(stack)}, serial=5)
    stack.assign({"use1-r01-2": new_id(stack)}, serial=2)
    assert written(stack).options.serial == 5


def test_a_replica_can_be_seen_as_if_it_had_another_release(stack: Stack) -> None:
    """A killed update may have left either; nothing is written for the question."""
    text = stack.runner.config_file.read_bytes()
    seen = stack.rendered({"use1-r01-1": new_id(stack)})
    assert seen["use1-r01-1"]["metadata"]["labels"]["k3fleet.io/release"] == new_id(stack)
    assert stack.runner.config_file.read_bytes() == text


def test_a_copy_that_is_behind_takes_what_is_deployed(stack: Stack) -> None:
    """And what the open rollout has written down since, which may be live or not."""
    old, new = stack.fleet.release_id, new_id(stack)
    deployed = Deployed(serial=4, releases={"use1-r01-0": new, "use1-r01-1": old})
    stack.sync(deployed, {"use1-r01-1": new}, serial=5)
    options = written(stack).options
    assert options.assignment == {"use1-r01-0": new, "use1-r01-1": new}
    assert options.serial == 5
    stack.sync(Deployed(serial=0, releases={}), {}, serial=9)  # never applied: nothing to learn
    assert written(stack).options.assignment == options.assignment


def test_what_frontends_follow_is_written_beside_the_replicas(stack: Stack) -> None:
    """And neither takes the other with it; the fleet's own release needs no word."""
    new = new_id(stack)
    stack.assign({}, serial=1, shared=new)
    assert (written(stack).options.shared, len(written(stack).releases)) == (new, 1)
    stack.assign({"use1-r01-1": new}, serial=2)
    assert written(stack).options.shared == new
    stack.assign({"use1-r01-1": stack.fleet.release_id}, serial=3)
    assert (written(stack).options.shared, len(written(stack).releases)) == (new, 1)
    stack.assign({}, serial=4, shared=stack.fleet.release_id)
    assert (written(stack).options.shared, written(stack).releases) == (None, ())
    stack.sync(Deployed(serial=5, releases={"use1-r01-0": new}, shared=new), {}, serial=5)
    assert written(stack).options.shared == new


def test_frontends_of_a_set_do_not_change_with_its_last_replica(
    stack: Stack, tmp_path: Path
) -> None:
    """A step may only touch its replica. What they were told is of a set that nobody runs."""
    ids = []
    for name, image in (("mid", "0"), ("newer", "1")):
        file = tmp_path / f"{name}.yaml"
        digest = f"sha256:{image * 64}"
        file.write_text(
            f"extends: vllm-tp8-dcp8\nname: {name}\nblock_size: 2048\n"
            f"dynamo: {{image: 'r.test/dynamo:1@{digest}'}}\n"
        )
        ids.append(release_id(load_release(str(file), beside=file)))
        stack = replace(stack, sources={**stack.sources, ids[-1]: str(file)})
    mid, newer = ids
    replicas = [f"use1-r01-{slot}" for slot in range(3)]
    assert stack.to_tell(stack.fleet.release_id) is None
    stack.assign(dict.fromkeys(replicas, mid), serial=1)
    assert stack.to_tell(stack.fleet.release_id) is None  # on the way to it, or back
    before = stack.fronting()
    stack.assign({replicas[-1]: newer}, serial=2, shared=stack.to_tell(mid))
    assert written(stack).options.shared == mid
    assert stack.fronting() == before
    assert stack.to_tell(mid) is None


def test_a_release_that_is_not_here_is_named(stack: Stack) -> None:
    """The working copy is too old for what is deployed: its files are missing."""
    deployed = Deployed(serial=4, releases={"use1-r01-0": "other-12345678"})
    with pytest.raises(ConfigError, match="other-12345678 is assigned, and nothing here"):
        stack.sync(deployed, {}, serial=0)
